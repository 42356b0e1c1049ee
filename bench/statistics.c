// What reading all statistics of a process with many arenas and threads costs: run with the allocator preloaded and
// MALLOC_CONF=narenas:64; prints nanoseconds, the least of some rounds. tests/ctl/cost.py compares two allocators.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 100, ROUNDS = 25 };

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
__attribute__((weak)) int mallctlnametomib(const char *, size_t *, size_t *);
__attribute__((weak)) int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);
__attribute__((weak)) void malloc_stats_print(void (*)(void *, const char *), void *, const char *);

static pthread_barrier_t barrier;

static void *work(void *number) {
    void *objects[400];

    for (int i = 0; i < 400; i++)
        objects[i] = malloc((size_t)i * i / 3 + 1);
    for (int i = 0; i < 400; i += 2)
        free(objects[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return number;
}

static uint64_t now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void drop(void *bytes, const char *piece) {
    *(size_t *)bytes += strlen(piece);
}

static void refresh(void) {
    uint64_t epoch = 1;

    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
}

static unsigned arenas(void) {
    unsigned count;
    size_t size = sizeof count;

    mallctl("arenas.narenas", &count, &size, NULL, 0);
    return count;
}

// As Redis does for fragmentation: every bin of every arena, by MIB.
static void read_bins(void) {
    static const char *const names[] = { "curregs", "curslabs", "nonfull_slabs", "nmalloc", "ndalloc" };
    unsigned bins, count = arenas();
    size_t size = sizeof bins;

    mallctl("arenas.nbins", &bins, &size, NULL, 0);
    refresh();
    for (int n = 0; n < 5; n++) {
        char name[64];
        size_t mib[8], length = 8, value = 0;

        snprintf(name, sizeof name, "stats.arenas.0.bins.0.%s", names[n]);
        mallctlnametomib(name, mib, &length);
        for (unsigned i = 0; i < count; i++)
            for (unsigned j = 0; j < bins; j++) {
                mib[2] = i;
                mib[4] = j;
                size = sizeof value;
                mallctlbymib(mib, length, &value, &size, NULL, 0);
            }
    }
}

static void read_names(void) {
    static const char *const names[] = { "stats.allocated", "stats.arenas.0.bins.3.curregs", "arenas.bin.7.size", "opt.dirty_decay_ms" };

    for (int i = 0; i < 4000; i++) {
        size_t value, size = sizeof value;

        mallctl(names[i % 4], &value, &size, NULL, 0);
    }
}

static void print_lines(void) {
    size_t bytes = 0;
    malloc_stats_print(drop, &bytes, "");
}

static void print_json(void) {
    size_t bytes = 0;
    malloc_stats_print(drop, &bytes, "J");
}

static void measure(const char *name, void what(void)) {
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now(), time;

        what();
        time = now() - start;
        least = time < least ? time : least;
    }
    printf("%s %lu\n", name, (unsigned long)least);
}

int main(void) {
    pthread_t threads[THREADS];

    if (mallctl == NULL)
        return 77;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    pthread_barrier_wait(&barrier);
    printf("arenas %u\n", arenas());
    measure("epoch", refresh);
    measure("bins", read_bins);
    measure("names", read_names);
    measure("lines", print_lines);
    measure("json", print_json);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
