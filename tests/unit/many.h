// A program that has had many threads: those that come have objects of a cache line and more from one arena again (heap/fronts.h).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <pthread.h>
#include <unistd.h>

#include "heap/arena.h"
#include "heap/fronts.h"
#include "os/clock.h"
#include "unit.h"

static void *be_one_of_many(void *all_here) {
    free(malloc(64));
    pthread_barrier_wait(all_here);
    return NULL;
}

// More than few, whether or not the one that calls it is counted.
static inline void have_many_threads(void) {
    free(malloc(64)); // processors are counted
    const unsigned count = 2 * arenas_processors() + 2;
    pthread_t threads[count];
    pthread_barrier_t all_here;

    pthread_barrier_init(&all_here, NULL, count);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, be_one_of_many, &all_here), 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_here);
    usleep(20000);
    CHECK(!fronts_look(os_clock_ms())); // not: nobody knows
}
