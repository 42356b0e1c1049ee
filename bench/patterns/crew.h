// A crew: one or more workers that prepare, work at the same time, and hold what they have until it was measured.
//
// With one thread the work is done by the main thread itself, in a process that has no other thread. With two it is
// done by threads that sit each on its own CPU; with more, the scheduler decides.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "bench.h"

struct worker {
    struct bench *bench;
    const struct pattern *pattern;
    unsigned index;
    uint64_t operations; // this worker's share
    struct random random;
    void *state; // the pattern's own

    // Written by the worker, added up by crew_run.
    uint64_t live;
    uint64_t live_peak;
    uint64_t operations_done;
} __attribute__((aligned(128)));

// What a worker does: before the clock starts, while it runs, and after everything was measured. `prepare` and `finish`
// may be NULL.
struct crew_work {
    void (*prepare)(struct worker *worker);
    void (*work)(struct worker *worker);
    void (*finish)(struct worker *worker);
};

// Runs pattern->threads workers; `states` is an array of one pointer a worker, or NULL.
void crew_run(struct bench *bench, const struct crew_work *work, void **states);

// Keeps the calling thread on the index-th CPU the process may use, if it has as many.
void pin_thread(unsigned index);

static inline void live_add(struct worker *worker, uint64_t bytes) {
    worker->live += bytes;
    if (worker->live > worker->live_peak) worker->live_peak = worker->live;
}

#endif
