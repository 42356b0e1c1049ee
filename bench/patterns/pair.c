// pair: malloc and free of one size in a loop; every allocator's best case.
//
// `smallest` is the size. One operation is one malloc and its free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crew.h"

#include <stdlib.h>

static void pair_loop(size_t bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        void *const object = malloc(bytes);
        touch(object, bytes);
        free(object);
    }
}

static void warm_up(struct worker *worker) {
    pair_loop(worker->pattern->smallest, 1000);
}

static void work(struct worker *worker) {
    pair_loop(worker->pattern->smallest, worker->operations);
    worker->operations_done = worker->operations;
    worker->live_peak = worker->pattern->smallest;
}

void run_pair(struct bench *bench) {
    crew_run(bench, &(struct crew_work){.prepare = warm_up, .work = work}, NULL);
}
