// A loop of each way to allocate and free, or of one: `counters PAIRS all|WAY [counted]`, counted: with the exact counters of the thread, checked at the end.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
__attribute__((weak)) void *_Znwm(size_t);
__attribute__((weak)) void _ZdlPv(void *);
__attribute__((weak)) void _ZdlPvm(void *, size_t);
__attribute__((weak)) void *mallocx(size_t, int);
__attribute__((weak)) void sdallocx(void *, size_t, int);

enum { SMALL = 64, MEDIUM = 20480, HELD = 16 };

static void *volatile object;
static void *held[HELD];

static size_t use_pair(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = malloc(SMALL);
        free(object);
    }
    return SMALL;
}

static size_t use_medium(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = malloc(MEDIUM);
        free(object);
    }
    return MEDIUM;
}

// As many objects live as fit in no one magazine's top.
static size_t use_held(long pairs) {
    for (long i = 0; i < pairs; i++) {
        free(held[i % HELD]);
        held[i % HELD] = malloc(SMALL);
    }
    return SMALL;
}

static size_t use_calloc(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = calloc(1, SMALL);
        free(object);
    }
    return SMALL;
}

static size_t use_realloc(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = realloc(malloc(SMALL), 2 * SMALL);
        free(object);
    }
    return 3 * SMALL;
}

static size_t use_new(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = _Znwm(SMALL);
        _ZdlPv(object);
    }
    return SMALL;
}

static size_t use_sized(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = _Znwm(SMALL);
        _ZdlPvm(object, SMALL);
    }
    return SMALL;
}

static size_t use_mallocx(long pairs) {
    for (long i = 0; i < pairs; i++) {
        object = mallocx(SMALL, 0);
        sdallocx(object, SMALL, 0);
    }
    return SMALL;
}

static const struct {
    const char *name;
    size_t (*use)(long pairs);
} ways[] = {
    { "pair", use_pair }, { "medium", use_medium }, { "held", use_held }, { "calloc", use_calloc }, { "realloc", use_realloc },
    { "new", use_new },   { "sized", use_sized },   { "mallocx", use_mallocx },
};

int main(int count, char **arguments) {
    long pairs = count > 1 ? atol(arguments[1]) : 1000;
    const char *way = count > 2 ? arguments[2] : "pair";
    uint64_t none = 0, *allocated = &none, before;
    size_t size = sizeof allocated, used = 0;

    for (int i = 0; i < 2 * HELD; i++) // what a heap does at its start is no way's
        held[i % HELD] = realloc(held[i % HELD], SMALL);
    if (count > 3 && mallctl("thread.allocatedp", &allocated, &size, NULL, 0) != 0)
        return 1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(way, "all") != 0 && strcmp(way, ways[i].name) != 0)
            continue;
        before = *allocated;
        size = ways[i].use(pairs);
        if (count > 3 && *allocated - before != (uint64_t)pairs * size)
            return 1;
        used++;
    }
    return used == 0 ? 2 : 0;
}
