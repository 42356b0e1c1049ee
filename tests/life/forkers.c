// Several threads fork at the same time, side by side in the fork handlers, while others allocate: each child can allocate, and so can a thread that it starts.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <pthread.h>
#include <unistd.h>

enum { FORKERS = 4, CHURNERS = 2, FORKS = 400, HANG_SECONDS = 300 };

static _Atomic int stopping;

static void *allocate(void *unused) {
    void *blocks[24];

    for (int i = 0; i < 24; i++) {
        blocks[i] = malloc((size_t)1 << i % 22);
        CHECK(blocks[i] != NULL);
    }
    for (int i = 0; i < 24; i++)
        free(blocks[i]);
    return unused;
}

static void *churn(void *unused) {
    while (!stopping)
        allocate(NULL);
    return unused;
}

static void child_life(void) {
    pthread_t thread;

    alarm(HANG_SECONDS);
    allocate(NULL);
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    _exit(0);
}

static void *fork_many(void *unused) {
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0)
            child_life();
        expect_child(child);
    }
    return unused;
}

int main(void) {
    pthread_t forkers[FORKERS], churners[CHURNERS];

    alarm(2 * HANG_SECONDS);
    for (int i = 0; i < CHURNERS; i++)
        CHECK_EQ(pthread_create(&churners[i], NULL, churn, NULL), 0);
    for (int i = 0; i < FORKERS; i++)
        CHECK_EQ(pthread_create(&forkers[i], NULL, fork_many, NULL), 0);
    for (int i = 0; i < FORKERS; i++)
        pthread_join(forkers[i], NULL);
    stopping = 1;
    for (int i = 0; i < CHURNERS; i++)
        pthread_join(churners[i], NULL);
    return 0;
}
