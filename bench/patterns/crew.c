// Starts the workers of a crew, measures their common work, and adds up what they report.
// SPDX-License-Identifier: BSD-2-Clause
#include "crew.h"

#include <pthread.h>
#include <sched.h>

struct crew {
    const struct crew_work *work;
    pthread_barrier_t born;    // all threads run, none has allocated
    pthread_barrier_t counted; // their stacks were measured
    pthread_barrier_t ready;   // all are prepared
    pthread_barrier_t start;   // the clock runs
    pthread_barrier_t done;    // the work is done
    pthread_barrier_t let_go;  // it was measured
};

struct place {
    struct worker worker;
    struct crew *crew;
    pthread_t thread;
};

static cpu_set_t cpus_at_start;

__attribute__((constructor)) static void note_cpus(void) {
    sched_getaffinity(0, sizeof cpus_at_start, &cpus_at_start);
}

void pin_thread(unsigned index) {
    if ((unsigned)CPU_COUNT(&cpus_at_start) <= index) return;
    unsigned cpu = 0;
    for (unsigned seen = 0;; cpu++) {
        if (CPU_ISSET(cpu, &cpus_at_start) && seen++ == index) break;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *place_main(void *argument) {
    struct place *const place = argument;
    struct crew *const crew = place->crew;
    struct worker *const worker = &place->worker;
    use_stack();
    pthread_barrier_wait(&crew->born);
    pthread_barrier_wait(&crew->counted);
    if (worker->pattern->threads == 2) pin_thread(worker->index);
    if (crew->work->prepare != NULL) crew->work->prepare(worker);
    pthread_barrier_wait(&crew->ready);
    pthread_barrier_wait(&crew->start);
    crew->work->work(worker);
    pthread_barrier_wait(&crew->done);
    pthread_barrier_wait(&crew->let_go);
    if (crew->work->finish != NULL) crew->work->finish(worker);
    return NULL;
}

static void sum_up(struct bench *bench, const struct place *places) {
    for (unsigned i = 0; i < bench->pattern->threads; i++) {
        bench->operations_done += places[i].worker.operations_done;
        bench->live_peak += places[i].worker.live_peak;
        bench->live_end += places[i].worker.live;
    }
}

static void run_alone(struct bench *bench, const struct crew_work *work, struct place *place) {
    if (work->prepare != NULL) work->prepare(&place->worker);
    measure_begin(bench);
    work->work(&place->worker);
    measure_end(bench);
    sum_up(bench, place);
    if (work->finish != NULL) work->finish(&place->worker);
}

static void run_together(struct bench *bench, struct crew *crew, struct place *places) {
    const unsigned threads = bench->pattern->threads;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_barrier_t *const barriers[] = {&crew->born, &crew->counted, &crew->ready, &crew->start, &crew->done, &crew->let_go};
    for (size_t i = 0; i < sizeof barriers / sizeof barriers[0]; i++) pthread_barrier_init(barriers[i], NULL, threads + 1);
    const uint64_t alone = resident_bytes();
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&places[i].thread, &attributes, place_main, &places[i]) != 0) fail("cannot create a thread");
    }
    pthread_barrier_wait(&crew->born);
    bench->thread_bytes = resident_bytes() - alone;
    pthread_barrier_wait(&crew->counted);
    pthread_barrier_wait(&crew->ready);
    measure_begin(bench);
    pthread_barrier_wait(&crew->start);
    pthread_barrier_wait(&crew->done);
    measure_end(bench);
    sum_up(bench, places);
    pthread_barrier_wait(&crew->let_go);
    for (unsigned i = 0; i < threads; i++) pthread_join(places[i].thread, NULL);
}

void crew_run(struct bench *bench, const struct crew_work *work, void **states) {
    const unsigned threads = bench->pattern->threads;
    struct crew crew = {.work = work};
    struct place *const places = own_memory(bench, threads * sizeof *places);
    for (unsigned i = 0; i < threads; i++) {
        places[i].crew = &crew;
        places[i].worker = (struct worker){
            .bench = bench,
            .pattern = bench->pattern,
            .index = i,
            .operations = bench->operations / threads,
            .random = {.state = bench->seed + (uint64_t)i * UINT64_C(0x5851F42D4C957F2D)},
            .state = states != NULL ? states[i] : NULL,
        };
    }
    if (threads == 1) {
        run_alone(bench, work, places);
    } else {
        run_together(bench, &crew, places);
    }
}
