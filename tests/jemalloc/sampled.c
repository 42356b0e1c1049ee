// Objects of named arenas and caches are sampled like all others, and forgotten when they are freed, or their arena or the profile is reset.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

const char *malloc_conf = "prof:true,lg_prof_sample:0,prof_final:false";

enum { OBJECTS = 20 };

// Samples of the class of 96 bytes that live.
static uint64_t live(void) {
    static const size_t bytes = 96;
    uint64_t pair[2];
    size_t size = sizeof pair, length = sizeof bytes, class_bytes;
    char name[60];

    for (unsigned class = 0;; class++) {
        snprintf(name, sizeof name, "arenas.bin.%u.size", class);
        CHECK(mallctl(name, &class_bytes, &length, NULL, 0) == 0);
        if (class_bytes < bytes)
            continue;
        snprintf(name, sizeof name, "prof.stats.bins.%u.live", class);
        CHECK(mallctl(name, pair, &size, NULL, 0) == 0);
        return pair[1];
    }
}

static void fill(void *objects[OBJECTS], int flags) {
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = mallocx(96, flags)) != NULL);
}

static void check_flags(int flags) {
    void *objects[OBJECTS];
    uint64_t before = live();

    fill(objects, flags);
    CHECK(live() == before + OBJECTS);
    for (int i = 0; i < OBJECTS; i++)
        sdallocx(objects[i], 90, flags);
    CHECK(live() == before);
}

// Samples of all large classes that live.
static uint64_t live_large(void) {
    uint64_t pair[2], sum = 0;
    unsigned classes;
    size_t size = sizeof pair, length = sizeof classes;
    char name[60];

    CHECK(mallctl("arenas.nlextents", &classes, &length, NULL, 0) == 0);
    for (unsigned class = 0; class < classes; class++) {
        snprintf(name, sizeof name, "prof.stats.lextents.%u.live", class);
        CHECK(mallctl(name, pair, &size, NULL, 0) == 0);
        sum += pair[1];
    }
    return sum;
}

// Large objects side by side, most of which cannot grow where they are: each has one sample, before, behind and in the end none.
static void check_resized(void) {
    enum { BEFORE = 200000, AFTER = 800000 };
    void *objects[OBJECTS];
    uint64_t before = live_large();

    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = malloc(BEFORE)) != NULL);
    CHECK(live_large() == before + OBJECTS);
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = realloc(objects[i], AFTER)) != NULL);
    CHECK(live_large() == before + OBJECTS);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    CHECK(live_large() == before);
}

// What comes after a reset is counted like what came before, by the same thread and from the same place.
static void check_reset(void) {
    void *objects[OBJECTS];

    for (int i = 0; i < 3; i++) {
        CHECK(mallctl("prof.reset", NULL, NULL, NULL, 0) == 0);
        CHECK(live() == 0);
        fill(objects, 0);
        CHECK(live() == OBJECTS);
        if (i == 1)
            CHECK(mallctl("prof.reset", NULL, NULL, NULL, 0) == 0 && live() == 0); // those that live are forgotten
        for (int object = 0; object < OBJECTS; object++)
            free(objects[object]);
        CHECK(live() == 0);
    }
}

// Requests that are rounded up to 2^63 bytes pass a point like any other. What is refused is no sample that lives.
static void check_refused(void) {
    uint64_t pair[2];
    size_t size_of_pair = sizeof pair, length = sizeof(unsigned);
    unsigned classes;
    char name[60];

    for (volatile size_t size = PTRDIFF_MAX; size > PTRDIFF_MAX - 3; size--) {
        CHECK(malloc(size) == NULL);
        CHECK(calloc(1, size) == NULL);
        CHECK(mallocx(size, 0) == NULL);
    }
    CHECK(malloc((size_t)7 << 60) == NULL); // of the largest class
    CHECK(mallctl("arenas.nlextents", &classes, &length, NULL, 0) == 0);
    for (int total = 0; total < 2; total++) {
        snprintf(name, sizeof name, "prof.stats.lextents.%u.%s", classes - 1, total ? "accum" : "live");
        CHECK(mallctl(name, pair, &size_of_pair, NULL, 0) == 0);
        CHECK(pair[1] == 0);
    }
}

int main(void) {
    void *objects[OBJECTS];
    unsigned arena, cache;
    size_t size = sizeof arena;
    char name[40];
    uint64_t before;

    CHECK(mallctl("arenas.create", &arena, &size, NULL, 0) == 0);
    CHECK(mallctl("tcache.create", &cache, &size, NULL, 0) == 0);
    check_flags(0);
    check_flags(MALLOCX_ARENA(arena));
    check_flags(MALLOCX_TCACHE(cache));
    check_flags(MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(32) | MALLOCX_ZERO);
    before = live();
    fill(objects, MALLOCX_ARENA(arena));
    snprintf(name, sizeof name, "arena.%u.reset", arena);
    CHECK(mallctl(name, NULL, NULL, NULL, 0) == 0);
    CHECK(live() == before);
    check_resized();
    check_reset();
    check_refused();
    return 0;
}
