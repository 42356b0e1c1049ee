// Fork handlers that allocate, registered before the allocator's own (by the dependency library) and after (here).
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include "dependency_library.h"

#include <pthread.h>

static void allocate(void) {
    void *small = malloc(40), *large = malloc(2 << 20);
    CHECK(small != NULL && large != NULL);
    free(small);
    free(large);
}

static _Atomic int stopping;

static void *churn(void *unused) {
    while (!stopping)
        allocate();
    return unused;
}

static void fork_once(void) {
    pid_t child = fork();

    CHECK_GE(child, 0);
    if (child == 0) {
        alarm(300);
        dependency_check();
        allocate();
        _exit(0);
    }
    expect_child(child);
}

// A thread that has not allocated yet: its first allocation is in a handler of the dependency's, amid the fork, and may make an arena.
static void *fork_first(void *unused) {
    fork_once();
    fork_once();
    return unused;
}

int main(void) {
    pthread_t threads[3], forker;
    alarm(600);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int round = 0; round < 20; round++) {
        CHECK_EQ(pthread_create(&forker, NULL, fork_first, NULL), 0);
        CHECK_EQ(pthread_join(forker, NULL), 0);
    }
    CHECK_EQ(pthread_atfork(allocate, allocate, allocate), 0);
    for (int round = 0; round < 300; round++)
        fork_once();
    stopping = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 1; // the dependency library's destructor makes it 0
}
