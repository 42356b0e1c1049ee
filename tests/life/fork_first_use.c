// fork while other threads are in their very first allocator call, nested: neither parent nor any descendant may hang.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

enum { THREADS = 6, ROUNDS = 400, DEPTH = 4, HANG_SECONDS = 300 };

static _Atomic int go;

static void *first_use(void *argument) {
    while (!go)
        sched_yield();
    void *block = malloc(16 + (size_t)argument * 100);
    CHECK(block != NULL);
    free(block);
    return NULL;
}

// Each generation allocates, forks the next, waits for it.
static void nested(int depth) {
    alarm(HANG_SECONDS);
    void *small = malloc(100), *large = malloc(1 << 20);
    CHECK(small != NULL && large != NULL);
    if (depth > 0) {
        pid_t child = fork();
        CHECK_GE(child, 0);
        if (child == 0) {
            nested(depth - 1);
            _exit(0);
        }
        expect_child(child);
    }
    free(large);
    free(small);
}

// The child of a threaded process starts threads of its own.
static void child_with_threads(void) {
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, first_use, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    nested(DEPTH);
}

static void round_once(int round) {
    pthread_t threads[THREADS];
    go = 0;
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, first_use, (void *)i), 0);
    go = 1;
    if (round % 3)
        sched_yield();
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        alarm(HANG_SECONDS);
        child_with_threads();
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_SAY(status == 0, "round %d: child status %x", round, status);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

int main(void) {
    alarm(1000);
    for (int round = 0; round < ROUNDS; round++)
        round_once(round);
    return 0;
}
