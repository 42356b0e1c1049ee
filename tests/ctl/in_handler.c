// A profiler's handler asks for what the thread has allocated, and is the first to ask: it comes in the middle of a malloc or a free, and these go on rightly.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#include "jemalloc/jemalloc.h"

enum { THREADS = 2, ROUNDS = 60, ROUND_MS = 20, OBJECTS = 256, TIMER_US = 1000 };

static volatile sig_atomic_t asked;
static volatile bool over;

static void ask(int signal) {
    uint64_t bytes;
    size_t size = sizeof bytes;
    (void)signal;
    if (mallctl("thread.allocated", &bytes, &size, NULL, 0) == 0)
        asked++;
}

static void *work(void *number) {
    static const size_t step = 2000;
    unsigned char *objects[OBJECTS] = { NULL };
    size_t sizes[OBJECTS];
    unsigned at = (unsigned)(uintptr_t)number;
    while (!over) {
        at = at * 1103515245u + 12345u;
        unsigned i = (at >> 16) % OBJECTS;
        if (objects[i] != NULL)
            CHECK(objects[i][0] == (unsigned char)i && objects[i][sizes[i] - 1] == (unsigned char)i);
        free(objects[i]);
        sizes[i] = at % step + 1;
        CHECK((objects[i] = malloc(sizes[i])) != NULL);
        memset(objects[i], (int)i, sizes[i]);
    }
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    return NULL;
}

int main(void) {
    struct sigaction action = { .sa_handler = ask, .sa_flags = SA_RESTART };
    struct itimerval timer = { { 0, TIMER_US }, { 0, TIMER_US } };
    CHECK_EQ(sigaction(SIGPROF, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_PROF, &timer, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        struct timespec pause = { 0, ROUND_MS * 1000000L };
        over = false;
        for (uintptr_t i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + (uintptr_t)round)), 0);
        nanosleep(&pause, NULL);
        over = true;
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    say("asked %d times", (int)asked);
    CHECK_GE(asked, 1);
    return 0;
}
