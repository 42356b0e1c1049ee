// Tests arena_for_thread: threads that begin at the same moment share the arenas evenly.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "conf/options.h"
#include "heap/arena.h"
#include "heap/heap.h"
#include "unit.h"

enum { ARENAS = 8, SHARE = 2, THREADS = ARENAS * SHARE, ROUNDS = 200 };

static _Atomic unsigned ready, counted, may_end;

static void *begin(void *round) {
    unsigned all = (unsigned)(uintptr_t)round * THREADS;

    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < all)
        sched_yield();
    free(malloc(24));
    atomic_fetch_add(&counted, 1);
    while (atomic_load(&may_end) < all)
        sched_yield();
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];

    CHECK(heap_ready());
    options.background_thread = false;
    options.narenas = ARENAS;
    for (uintptr_t round = 1; round <= ROUNDS; round++) {
        for (unsigned i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, begin, (void *)round), 0);
        while (atomic_load(&counted) < round * THREADS)
            sched_yield();
        for (unsigned i = 0; i < ARENAS; i++)
            CHECK(arena_of(i)->threads <= SHARE + 1); // this thread has one, too
        atomic_store(&may_end, (unsigned)round * THREADS);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
