// Tests arena_for_thread: one arena for each processor is made at once, of the others one when threads have waited for locks.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>

#include "conf/options.h"
#include "heap/arena.h"
#include "heap/heap.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/mutex_figures.h"
#include "unit.h"

enum { THREADS = 24, WAITS = 64 };

static _Atomic uint32_t allocated, may_end;

static void *allocate_and_stay(void *unused) {
    free(malloc(24));
    atomic_fetch_add(&allocated, 1);
    while (!may_end)
        os_word_wait(&may_end, 0, 100);
    return unused;
}

// One after the other, so that nobody waits for a lock.
static void start(pthread_t *thread, uint32_t number) {
    CHECK_EQ(pthread_create(thread, NULL, allocate_and_stay, NULL), 0);
    while (atomic_load(&allocated) < number)
        os_word_wait(&may_end, 0, 1);
}

static void wait_often(void) {
    static struct mutex mutex = MUTEX_INIT(RANK_ARENAS);

    for (int i = 0; i < WAITS; i++) {
        mutex_wait_begins(&mutex);
        mutex_wait_ends(&mutex, 1);
    }
}

int main(void) {
    pthread_t threads[THREADS + 2];
    unsigned cpus = os_cpus_affine(), at_once;

    CHECK(heap_ready());
    options.background_thread = false;
    free(malloc(24));
    at_once = arenas_automatic_most() < cpus ? arenas_automatic_most() : cpus;
    for (uint32_t i = 0; i < THREADS; i++)
        start(&threads[i], i + 1);
    CHECK_EQ(arenas_live(), at_once < THREADS + 1 ? at_once : THREADS + 1);
    if (at_once < arenas_automatic_most() && at_once <= THREADS) {
        wait_often();
        start(&threads[THREADS], THREADS + 1);
        start(&threads[THREADS + 1], THREADS + 2);
        CHECK_EQ(arenas_live(), at_once + 1);
    }
    atomic_store(&may_end, 1);
    return 0;
}
