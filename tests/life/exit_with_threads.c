// exit, quick_exit and return from main while threads are in the middle of allocating: status kept, no crash, no hang.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/sizes.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 100 };
static _Atomic int running;

static void *churn(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    running++;
    for (;;) {
        void *block = malloc(random_below(&random, 70000));
        memset(block, 1, 1);
        free(block);
    }
    return NULL;
}

static void at_exit(void) {
    for (int i = 0; i < 100; i++)
        free(malloc(i * 100));
}

static int program(int round) {
    alarm(300);
    atexit(at_exit);
    at_quick_exit(at_exit);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, churn, (void *)i), 0);
        pthread_detach(thread);
    }
    while (running < THREADS)
        sched_yield();
    if (round % 2)
        quick_exit(round);
    exit(round);
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        CHECK_GE(child, 0);
        if (child == 0)
            program(round);
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == round, "round %d: status %x", round, status);
    }
    return 0;
}
