// exit in a signal handler that comes amid malloc or free: the process ends, and finds no misuse in what is in the middle of a change.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>

enum { ROUNDS = 60, OBJECTS = 4000, SIZES = 40000, FIRST_US = 1000, STEP_US = 70, HANG_SECONDS = 50 };

static void end(int number) {
    (void)number;
    exit(0);
}

static void churn(void) {
    static void *objects[OBJECTS];

    for (;;) {
        for (int i = 0; i < OBJECTS; i++)
            CHECK((objects[i] = malloc(16 + (size_t)i * 37 % SIZES)) != NULL);
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
    }
}

int main(void) {
    alarm(HANG_SECONDS);
    for (int round = 0; round < ROUNDS; round++) {
        struct itimerval moment = {.it_value = {0, FIRST_US + round * STEP_US}};
        pid_t child = fork();

        if (child == 0) {
            CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
            signal(SIGALRM, end);
            CHECK_EQ(setitimer(ITIMER_REAL, &moment, NULL), 0);
            churn();
        }
        expect_child(child);
    }
    return 0;
}
