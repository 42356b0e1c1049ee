// 10,000 forks from a process whose threads allocate all the time: parent and child go on, nothing hangs, nothing grows.
// Every child allocates and frees what it inherited; every tenth forks again.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"
#include "../support/resident.h"
#include "../support/sizes.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

enum { THREADS = 4, FORKS = 10000, WARM_UP = 1000, INHERITED = 100, HANG_SECONDS = 300, GROWTH_LIMIT = 2 << 20 };

static _Atomic int stopping;
static void *inherited[INHERITED];

// Bursts with short sleeps between them, so that the forks get their share of a machine with few CPUs.
static void *churn(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    void *blocks[50] = {0};
    for (long calls = 0; !stopping; calls++) {
        if (calls % 100 == 0)
            nanosleep(&(struct timespec){0, 100000}, NULL);
        size_t slot = random_below(&random, 50), size = (size_t)1 << random_below(&random, 18);
        free(blocks[slot]);
        blocks[slot] = malloc(size);
        memset(blocks[slot], (int)slot, size < 64 ? size : 64);
    }
    for (int i = 0; i < 50; i++)
        free(blocks[i]);
    return NULL;
}

static void wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    CHECK_SAY(status == 0, "a child ended with status %x%s", status,
              WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
}

static void child_life(int generations) {
    alarm(HANG_SECONDS);
    for (int i = 0; i < INHERITED; i++)
        pattern_verify(inherited[i], 10 + i * 50, i);
    for (size_t size = 8; size < 300000; size = size * 3 / 2 + 8) {
        void *block = malloc(size);
        CHECK(block != NULL);
        memset(block, 1, size < 4096 ? size : 4096);
        block = realloc(block, size * 2);
        CHECK(block != NULL);
        free(block);
    }
    for (int i = 0; i < INHERITED; i += 2)
        free(inherited[i]);
    if (generations > 0) {
        pid_t child = fork();
        CHECK_GE(child, 0);
        if (child == 0) {
            free(malloc(1000));
            _exit(0);
        }
        wait_for(child);
    }
    _exit(0);
}

static void fork_many(int count) {
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        CHECK_GE(child, 0);
        if (child == 0)
            child_life(i % 10 == 0);
        wait_for(child);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    time_t start = time(NULL);
    for (int i = 0; i < INHERITED; i++) {
        inherited[i] = malloc(10 + i * 50);
        pattern_fill(inherited[i], 10 + i * 50, i);
    }
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    fork_many(WARM_UP);
    long before = anonymous_bytes();
    fork_many(FORKS - WARM_UP);
    long growth = anonymous_bytes() - before;
    stopping = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say("10,000 forks in %ld s: resident %+ld KiB", (long)(time(NULL) - start), growth / 1024);
    CHECK_LE(growth, GROWTH_LIMIT);
    return 0;
}
