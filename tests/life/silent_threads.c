// Threads that never allocate: when they end, the C library frees what it keeps of old stacks on them, after their hooks for the thread's end
// have run. Nothing of them may stay with the heap, for their memory is gone: their arena counted them for ever, and the heap wrote to them.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "jemalloc/jemalloc.h"

enum { THREADS = 40, STACK_BYTES = 8 << 20, LOOKS = 6000 }; // more than the C library keeps

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void *idle(void *argument) {
    pause_ms(50);
    return argument;
}

static unsigned unsigned_of(const char *name) {
    unsigned value = 0;
    size_t size = sizeof value;

    return mallctl(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

static unsigned threads_counted(void) {
    unsigned arenas = unsigned_of("arenas.narenas"), sum = 0;
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    for (unsigned i = 0; i < arenas; i++) {
        char name[64];

        snprintf(name, sizeof name, "stats.arenas.%u.nthreads", i);
        sum += unsigned_of(name);
    }
    return sum;
}

static unsigned threads_there(void) {
    unsigned count = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");

    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "Threads: %u", &count);
    fclose(status);
    return count;
}

int main(void) {
    void *volatile object = malloc(100);
    unsigned counted = threads_counted(), there = threads_there(), looks = 0;
    pthread_attr_t attributes;
    pthread_t thread;

    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    CHECK_EQ(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread, &attributes, idle, NULL), 0);
    while (threads_there() > there && looks++ < LOOKS)
        pause_ms(50);
    CHECK_EQ(threads_there(), there);
    CHECK_EQ(threads_counted(), counted);
    free(object);
    return 0;
}
