// What watches, by four threads at once under the thread sanitizer: stacks by both unwinders, samples and their frees, dumps, the table of
// sampled objects, traces one after the other, and modules that come and go.  `races FOLDER [SECONDS]`.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"
#include "base/base.h"
#include "os/module.h"
#include "watch/known_stacks.h"
#include "watch/profile.h"
#include "watch/sampled_objects.h"
#include "watch/trace.h"

enum { THREADS = 3, KEPT = 64, RATE = 12 };

static _Atomic bool stop;
static _Atomic unsigned waiting; // for each other, so that first use is all's at once
static pthread_rwlock_t no_events = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP; // what happens while a trace ends may be lost, or told twice
static uint32_t line_bytes[PROFILE_LINES];
static const char *folder;

struct worker {
    pthread_t thread;
    unsigned seed;
    struct known_stacks *stacks;
    struct profile_thread profile;
    struct tracer *tracer;
    uint32_t kept[KEPT];
    char objects[KEPT][16];
};

__attribute__((noinline)) static void work_once(struct worker *worker, unsigned at) {
    size_t size = 64u << (worker->seed >> 8) % 8;
    int64_t until[PROFILE_LINES] = { -1 };

    known_stacks_find(worker->stacks, (uintptr_t)__builtin_frame_address(0), at % 2 ? OS_UNWIND_TABLES : OS_UNWIND_FRAMES);
    if (worker->kept[at] != 0) {
        tally_freed(worker->kept[at]);
        trace_freed(&worker->tracer, worker->objects[at]);
        sampled_objects_take(worker->objects[at]);
    }
    profile_draw(&worker->profile, until, 0, size);
    worker->kept[at] = profile_record(&worker->profile, size, at % 3);
    trace_allocated(&worker->tracer, worker->objects[at], size);
    CHECK(sampled_objects_add(worker->objects[at], worker->kept[at]));
}

__attribute__((noinline)) static void deep(struct worker *worker, unsigned depth) {
    if (depth > 0)
        deep(worker, depth - 1);
    else
        work_once(worker, (worker->seed >> 16) % KEPT);
    __asm__ volatile("" ::: "memory");
}

static void *work(void *argument) {
    struct worker *worker = argument;

    worker->stacks = base_alloc_pages(sizeof *worker->stacks);
    known_stacks_clear(worker->stacks);
    for (waiting--; waiting > 0;)
        ;
    while (!stop) {
        pthread_rwlock_rdlock(&no_events);
        worker->seed = worker->seed * 1664525u + 1013904223u;
        deep(worker, (worker->seed >> 20) % 30);
        pthread_rwlock_unlock(&no_events);
    }
    trace_thread_end(&worker->tracer);
    return NULL;
}

static void look(unsigned round) {
    struct trace_wish wish = { .prefix = folder, .most_bytes = 64 << 20, .stacks = round % 2, .ring = round % 3 == 0 };
    struct estimate sum = { 0 };
    char path[300];
    void *opened;

    pthread_rwlock_wrlock(&no_events);
    trace_stop(false);
    CHECK(trace_start(&wish));
    pthread_rwlock_unlock(&no_events);
    snprintf(path, sizeof path, "%s.heap", folder);
    CHECK_EQ(profile_dump(path), 0);
    for (uint32_t number = 1; number <= tallies_last(); number++)
        estimate_add(&sum, tally_of(number));
    opened = dlopen("libresolv.so.2", RTLD_NOW);
    os_modules_change();
    if (opened != NULL)
        dlclose(opened);
    if (round % 8 == 7)
        profile_reset(RATE);
}

int main(int argc, char **argv) {
    struct worker *workers = calloc(THREADS, sizeof *workers);
    time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 3);
    char prefix[200];

    CHECK(argc > 1);
    snprintf(prefix, sizeof prefix, "%s/r", argv[1]);
    folder = prefix;
    profile_settings.active = true;
    profile_settings.lg_sample = RATE;
    profile_settings.line_bytes = line_bytes;
    profile_settings.unwinder = OS_UNWIND_TABLES;
    os_modules_ask_loader(dlsym(RTLD_DEFAULT, "_dl_find_object"));
    waiting = THREADS;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = i * 77 + 1;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned round = 0; time(NULL) < end; round++)
        look(round);
    stop = true;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    trace_stop(false);
    return 0;
}
