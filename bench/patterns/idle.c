// idle, startup, nothing: what an allocator costs a program that hardly uses it.
//
// idle: `threads` threads, each of which allocates one object of `smallest` bytes and then waits. Resident memory is
// read when all threads run and none has allocated, and when all have; the stack that malloc may need is touched
// before the first reading. startup: a fresh process with `slots` objects of `smallest` to `largest` bytes.
// nothing: the same process without a single call; what is resident then is not the allocator's user's.
// SPDX-License-Identifier: BSD-2-Clause
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_barrier_t all_run;
static pthread_barrier_t begin;
static pthread_barrier_t all_have;
static pthread_barrier_t let_go;

static void *idle_main(void *argument) {
    const size_t bytes = *(const uint32_t *)argument;
    use_stack();
    pthread_barrier_wait(&all_run);
    pthread_barrier_wait(&begin);
    void *const object = malloc(bytes);
    touch(object, bytes);
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&let_go);
    free(object);
    return NULL;
}

void run_idle_threads(struct bench *bench) {
    const unsigned threads = bench->pattern->threads;
    uint32_t bytes = bench->pattern->smallest;
    pthread_t *const ids = own_memory(bench, threads * sizeof *ids);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_barrier_t *const barriers[] = {&all_run, &begin, &all_have, &let_go};
    for (size_t i = 0; i < 4; i++) pthread_barrier_init(barriers[i], NULL, threads + 1);
    const uint64_t alone = resident_bytes();
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], &attributes, idle_main, &bytes) != 0) fail("cannot create a thread");
    }
    pthread_barrier_wait(&all_run);
    const uint64_t before = resident_bytes();
    bench->thread_bytes = before - alone;
    measure_begin(bench);
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&all_have);
    bench->operations_done = threads;
    bench->live_peak = bench->live_end = (uint64_t)threads * bytes;
    measure_end(bench);
    bench->per_thread = ((int64_t)bench->rss_end - (int64_t)before) / (int64_t)threads;
    pthread_barrier_wait(&let_go);
    for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

void run_start_up(struct bench *bench) {
    struct random random = {.state = bench->seed};
    void **const objects = own_memory(bench, bench->pattern->slots * sizeof *objects);
    measure_begin(bench);
    for (uint32_t i = 0; i < bench->pattern->slots; i++) {
        const uint32_t bytes = random_between((uint32_t)random_next(&random), bench->pattern->smallest, bench->pattern->largest);
        objects[i] = malloc(bytes);
        touch(objects[i], bytes);
        bench->live_end += bytes;
    }
    bench->live_peak = bench->live_end;
    bench->operations_done = bench->pattern->slots;
    measure_end(bench);
    for (uint32_t i = 0; i < bench->pattern->slots; i++) free(objects[i]);
}

void run_nothing(struct bench *bench) {
    measure_begin(bench);
    measure_end(bench);
}
