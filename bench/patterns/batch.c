// lifo, fifo, rnd: allocate a batch of objects, free them all in some order, again and again.
//
// `slots` objects of `smallest` to `largest` bytes; `variant` is the order of freeing. The first batch is made before
// the clock starts. One operation is one malloc and its free. The order comes about while allocating: the n-th
// object is put where its turn to be freed will be, so that freeing reads the table from front to back.
// SPDX-License-Identifier: BSD-2-Clause
#include "patterns.h"
#include "crew.h"

#include <stdlib.h>

struct batch {
    void **objects;
    uint32_t *turn; // turn[n]: when the n-th object will be freed
    uint32_t count;
};

static void shuffle(uint32_t *numbers, uint32_t count, struct random *random) {
    for (uint32_t i = count - 1; i > 0; i--) {
        const uint32_t other = random_scale((uint32_t)random_next(random), i + 1);
        const uint32_t kept = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = kept;
    }
}

static struct batch batch_prepare(struct bench *bench, struct random *random) {
    const uint32_t count = bench->pattern->slots;
    const struct batch batch = {
        .objects = own_memory(bench, count * sizeof(void *)),
        .turn = own_memory(bench, count * sizeof(uint32_t)),
        .count = count,
    };
    for (uint32_t i = 0; i < count; i++) batch.turn[i] = bench->pattern->variant == order_last_first ? count - 1 - i : i;
    if (bench->pattern->variant == order_random) shuffle(batch.turn, count, random);
    return batch;
}

// Allocates and frees one batch; returns how many bytes it held.
static uint64_t batch_once(const struct batch *batch, const struct pattern *pattern, struct random *random) {
    uint64_t held = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint32_t bytes = random_between((uint32_t)random_next(random), pattern->smallest, pattern->largest);
        void *const object = malloc(bytes);
        touch(object, bytes);
        batch->objects[batch->turn[i]] = object;
        held += bytes;
    }
    for (uint32_t i = 0; i < batch->count; i++) free(batch->objects[i]);
    return held;
}

static void warm_up(struct worker *worker) {
    worker->live_peak = batch_once(worker->state, worker->pattern, &worker->random);
}

static void work(struct worker *worker) {
    const struct batch *const batch = worker->state;
    while (worker->operations_done < worker->operations) {
        const uint64_t held = batch_once(batch, worker->pattern, &worker->random);
        if (held > worker->live_peak) worker->live_peak = held;
        worker->operations_done += batch->count;
    }
}

void run_batch(struct bench *bench) {
    static struct batch batches[most_threads];
    static void *states[most_threads];
    for (unsigned i = 0; i < bench->pattern->threads; i++) {
        struct random random = {.state = bench->seed + i};
        batches[i] = batch_prepare(bench, &random);
        states[i] = &batches[i];
    }
    crew_run(bench, &(struct crew_work){.prepare = warm_up, .work = work}, states);
}
