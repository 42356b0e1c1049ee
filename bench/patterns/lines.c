// scratch, thrash: do small objects of two threads share a cache line?
//
// Each thread allocates an object of `smallest` bytes, writes it `slots` times, and frees it, again and again. thrash
// begins with nothing: the allocator itself would have to give one line to two threads. scratch begins with objects
// that one thread allocated in a row and gave away; each thread frees the one it was given first, and the
// allocator should not hand that place to this thread again. One operation is malloc, the writes, and free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crew.h"
#include "patterns.h"

#include <stdlib.h>

static void work(struct worker *worker) {
    const size_t bytes = worker->pattern->smallest;
    const uint32_t writes = worker->pattern->slots;
    free(worker->state);
    for (uint64_t i = 0; i < worker->operations; i++) {
        volatile uint64_t *const object = malloc(bytes);
        touch((void *)object, bytes);
        for (uint32_t write = 0; write < writes; write++) *object += write;
        free((void *)object);
    }
    worker->operations_done = worker->operations;
    worker->live_peak = bytes;
}

void run_share_line(struct bench *bench) {
    static void *given[most_threads];
    if (bench->pattern->variant == neighbours_given) {
        for (unsigned i = 0; i < bench->pattern->threads; i++) {
            given[i] = malloc(bench->pattern->smallest);
            touch(given[i], bench->pattern->smallest);
        }
    }
    crew_run(bench, &(struct crew_work){.work = work}, given);
}
