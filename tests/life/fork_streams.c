// A fork waits for the C library's list of streams, which fflush(NULL) holds, which waits for a stream, whose holder allocates: as the C library's own malloc
// is locked after that list, so are ours.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <pthread.h>

enum { ROUNDS = 3, STEP_MICROSECONDS = 50000, HANG_SECONDS = 300, BLOCKS = 2000 };

static _Atomic int in_child;

// More than this thread has: of small sizes, large ones, and of its own cache none.
static void allocate(void) {
    static __thread void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)i % 50 * (size_t)i % 50 == 0 ? 300000 : (size_t)i * 16);
        CHECK(blocks[i] != NULL);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void *use_streams(void *unused) {
    FILE *file = fopen("/dev/null", "w");
    CHECK(file != NULL);
    CHECK_GE(fputs("line\n", file), 0);
    CHECK_EQ(fflush(NULL), 0);
    CHECK_EQ(fclose(file), 0);
    return unused;
}

static void *flush_all(void *unused) {
    CHECK_EQ(fflush(NULL), 0);
    return unused;
}

// The child opens and closes streams in two threads, and forks again.
static void *fork_once(void *unused) {
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        pthread_t thread;
        alarm(HANG_SECONDS);
        use_streams(NULL);
        CHECK_EQ(pthread_create(&thread, NULL, use_streams, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        if (!in_child) {
            in_child = 1;
            fork_once(NULL);
        }
        use_streams(NULL);
        _exit(0);
    }
    expect_child(child);
    return unused;
}

int main(void) {
    FILE *stream = fopen("/dev/null", "w");
    CHECK(stream != NULL);
    alarm(HANG_SECONDS);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t flusher, forker;
        flockfile(stream);
        CHECK_EQ(pthread_create(&flusher, NULL, flush_all, NULL), 0);
        usleep(STEP_MICROSECONDS); // by now it has the list and waits for the stream
        CHECK_EQ(pthread_create(&forker, NULL, fork_once, NULL), 0);
        usleep(STEP_MICROSECONDS); // by now it waits for the list
        allocate();
        funlockfile(stream);
        pthread_join(flusher, NULL);
        pthread_join(forker, NULL);
        use_streams(NULL);
    }
    fclose(stream);
    return 0;
}
