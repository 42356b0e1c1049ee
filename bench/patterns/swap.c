// swap: threads put objects into one table that they share, and free what was there.
//
// `slots` places; each operation allocates an object of `smallest` to `largest` bytes, exchanges it with what is in a random
// place, reads that and frees it: of N threads, all but one in N of the objects are another thread's, and neighbours in the
// order of freeing come from anywhere. A cache that a server's threads share does this.
// SPDX-License-Identifier: BSD-2-Clause
#include "crew.h"

#include <stdatomic.h>
#include <stdlib.h>

static void *swap(const struct worker *worker, uint64_t *_Atomic *table, uint64_t random) {
    const uint32_t bytes = random_between((uint32_t)random, worker->pattern->smallest, worker->pattern->largest);
    void *const object = malloc(bytes);
    touch(object, bytes);
    return atomic_exchange_explicit(&table[random_scale((uint32_t)(random >> 32), worker->pattern->slots)], object, memory_order_acq_rel);
}

static void swap_many(struct worker *worker, uint64_t operations) {
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t *const before = swap(worker, worker->state, random_next(&worker->random));
        if (before != NULL && *before == 0) fail("an object changed in the table");
        free(before);
    }
}

// Fills the table.
static void warm_up(struct worker *worker) {
    swap_many(worker, worker->pattern->slots);
}

static void work(struct worker *worker) {
    swap_many(worker, worker->operations);
    worker->operations_done = worker->operations;
}

void run_swap(struct bench *bench) {
    static void *states[most_threads];
    void *const table = own_memory(bench, bench->pattern->slots * sizeof(void *));
    for (unsigned i = 0; i < bench->pattern->threads; i++) states[i] = table;
    bench->live_end = bench->live_peak = bench->pattern->slots * (uint64_t)(bench->pattern->smallest + bench->pattern->largest) / 2; // the table, on average
    crew_run(bench, &(struct crew_work){.prepare = warm_up, .work = work}, states);
}
