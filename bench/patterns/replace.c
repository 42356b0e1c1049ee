// repl, mixed, calloc, many: each thread has a table of live objects and replaces random ones.
//
// Each of `threads` threads has `slots` objects of `smallest` to `largest` bytes; `variant` says what a replacement
// does. The tables are filled before the clock starts. One operation is one free and one malloc.
// SPDX-License-Identifier: BSD-2-Clause
#include "table_of_objects.h"

static void prepare(struct worker *worker) {
    table_fill(worker, worker->state, worker->pattern->slots, (enum replacement)worker->pattern->variant);
}

// The variants are spelt out so that the compiler makes a loop of its own for each.
static void work(struct worker *worker) {
    struct slot *const slots = worker->state;
    const uint32_t count = worker->pattern->slots;
    switch ((enum replacement)worker->pattern->variant) {
    case replace_plain: table_replace(worker, slots, count, replace_plain, worker->operations); break;
    case replace_using: table_replace(worker, slots, count, replace_using, worker->operations); break;
    case replace_zeroed: table_replace(worker, slots, count, replace_zeroed, worker->operations); break;
    case replace_log_size: table_replace(worker, slots, count, replace_log_size, worker->operations); break;
    }
}

static void finish(struct worker *worker) {
    table_empty(worker, worker->state, worker->pattern->slots);
}

void run_replace(struct bench *bench) {
    static void *states[most_threads];
    for (unsigned i = 0; i < bench->pattern->threads; i++) states[i] = own_memory(bench, bench->pattern->slots * sizeof(struct slot));
    crew_run(bench, &(struct crew_work){.prepare = prepare, .work = work, .finish = finish}, states);
}
