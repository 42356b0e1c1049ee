// What is read while other threads write the epoch is whole: an arena that lives is never missing, and holds what it holds; what is destroyed leaves the statistics as they were,
// whoever has its number next.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

enum { WRITERS = 2, MAKERS = 2, READS = 1000000, OBJECTS = 100, BYTES = 1024 };

static atomic_bool stopping;

static void *write_epochs(void *unused) {
    uint64_t epoch = 1;

    while (!stopping)
        CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    return unused;
}

static void act(const char *format, unsigned arena) {
    char name[64];

    snprintf(name, sizeof name, format, arena);
    CHECK_SAY(mallctl(name, NULL, NULL, NULL, 0) == 0, "%s", name);
}

static void make_and_destroy(void) {
    unsigned arena;
    size_t size = sizeof arena;

    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    CHECK(mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) != NULL && mallocx(100000, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) != NULL);
    act("arena.%u.destroy", arena);
}

static void *make_arenas(void *unused) {
    while (!stopping)
        make_and_destroy();
    return unused;
}

static size_t read_size(const char *name) {
    size_t value = 0, size = sizeof value;

    CHECK_SAY(mallctl(name, &value, &size, NULL, 0) == 0, "%s", name);
    return value;
}

int main(void) {
    pthread_t threads[WRITERS + MAKERS];
    unsigned arena;
    size_t size = sizeof arena, before;
    uint64_t epoch = 1;
    char name[64];

    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    for (int i = 0; i < OBJECTS; i++)
        CHECK(mallocx(BYTES, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) != NULL);
    make_and_destroy();
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    before = read_size("stats.arenas.4097.small.allocated") + read_size("stats.arenas.4097.large.allocated");
    snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", arena);
    for (int i = 0; i < WRITERS + MAKERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < WRITERS ? write_epochs : make_arenas, NULL), 0);
    for (int i = 0; i < READS; i++)
        CHECK_EQ(read_size(name), OBJECTS * BYTES);
    stopping = true;
    for (int i = 0; i < WRITERS + MAKERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(read_size("stats.arenas.4097.small.allocated") + read_size("stats.arenas.4097.large.allocated"), before);
    CHECK_LE(read_size("stats.allocated"), read_size("stats.active"));
    return 0;
}
