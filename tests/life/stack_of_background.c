// A program whose thread-local memory is nearly, or more than, as large as the background thread's stack: the C library takes it from each thread's
// stack. The background thread is there, and visits threads that sleep, which takes most of its stack.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "jemalloc/jemalloc.h"

enum { OBJECTS = 3000, RUNS = 10, MILLISECONDS = 300000 };

_Thread_local volatile char memory[MEMORY_BYTES];

static _Atomic int done;

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void *fall_asleep(void *unused) {
    static void *objects[OBJECTS];

    memory[MEMORY_BYTES / 2] = 1;
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = malloc((size_t)(16 + i % 1000));
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    while (!done)
        pause_ms(10);
    return unused;
}

static uint64_t runs(void) {
    uint64_t epoch = 1, value = 0;
    size_t size = sizeof value;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.background_thread.num_runs", &value, &size, NULL, 0), 0);
    return value;
}

int main(void) {
    pthread_t thread;
    uint64_t begun;

    memory[0] = 1;
    CHECK_EQ(pthread_create(&thread, NULL, fall_asleep, NULL), 0);
    for (int i = 0; i < 3; i++)
        free(memset(malloc(4 << 20), 1, 4 << 20));
    begun = runs();
    for (int waited = 0; runs() < begun + RUNS; waited += 10) {
        CHECK_SAY(waited < MILLISECONDS, "the background thread took %d steps", (int)(runs() - begun));
        pause_ms(10);
    }
    done = 1;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
