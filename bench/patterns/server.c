// server: threads that serve for a while, then start a successor, hand it their table of live objects, and die.
//
// `threads` tables of `slots` objects of `smallest` to `largest` bytes; a thread replaces ten times as many objects as
// its table holds, reading each before it frees it. So most objects are freed by another thread than the one
// that allocated them, which by then no longer exists. One operation is one free and one malloc; starting the
// threads is part of the time.
// SPDX-License-Identifier: BSD-2-Clause
#include "table_of_objects.h"

#include <pthread.h>
#include <semaphore.h>

struct service {
    struct worker worker;
    struct slot *slots;
    sem_t *ended;
    uint64_t left; // operations still to do, by this thread and its successors
};

static pthread_attr_t detached;

static void *serve(void *argument);

static void start_server(struct service *service) {
    pthread_t thread;
    if (pthread_create(&thread, &detached, serve, service) != 0) fail("cannot create a thread");
}

static void *serve(void *argument) {
    struct service *const service = argument;
    const uint32_t slots = service->worker.pattern->slots;
    const uint64_t term = (uint64_t)slots * 10 < service->left ? (uint64_t)slots * 10 : service->left;
    table_replace(&service->worker, service->slots, slots, replace_using, term);
    service->left -= term;
    if (service->left > 0) {
        start_server(service);
    } else {
        sem_post(service->ended);
    }
    return NULL;
}

static void service_prepare(struct service *service, struct bench *bench, unsigned index, sem_t *ended) {
    service->worker = (struct worker){
        .bench = bench,
        .pattern = bench->pattern,
        .index = index,
        .random = {.state = bench->seed + (uint64_t)index * UINT64_C(0x5851F42D4C957F2D)},
    };
    service->slots = own_memory(bench, bench->pattern->slots * sizeof(struct slot));
    service->ended = ended;
    service->left = bench->operations / bench->pattern->threads;
    table_fill(&service->worker, service->slots, bench->pattern->slots, replace_using);
}

void run_server(struct bench *bench) {
    const unsigned threads = bench->pattern->threads;
    struct service *const services = own_memory(bench, threads * sizeof *services);
    sem_t ended;
    sem_init(&ended, 0, 0);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 256 * 1024);
    for (unsigned i = 0; i < threads; i++) service_prepare(&services[i], bench, i, &ended);
    measure_begin(bench);
    for (unsigned i = 0; i < threads; i++) start_server(&services[i]);
    for (unsigned i = 0; i < threads; i++) {
        while (sem_wait(&ended) != 0) {
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        bench->operations_done += services[i].worker.operations_done;
        bench->live_peak += services[i].worker.live_peak;
        bench->live_end += services[i].worker.live;
    }
    measure_end(bench);
    for (unsigned i = 0; i < threads; i++) table_empty(&services[i].worker, services[i].slots, bench->pattern->slots);
}
