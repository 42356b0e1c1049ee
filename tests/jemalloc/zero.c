// What MALLOCX_ZERO promises where memory is not given back to become zero: guarded buffers, which end amid a page (`zero guarded SIZE`), and what hooks gave
// before an arena got the default ones back (`zero hooks`).
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "jemalloc/jemalloc.h"

enum { SMALL = 1000, LARGE = 64 << 20, ROUNDS = 3 };

static void check_zero(const char *from, const char *end) {
    size_t filled = 0;
    for (; from < end; from++)
        filled += *from != 0;
    CHECK_EQ(filled, 0);
}

static void guarded(size_t size) {
    char *buffer = memset(mallocx(SMALL, 0), 1, SMALL);
    CHECK((buffer = rallocx(buffer, size, MALLOCX_ZERO)) != NULL);
    CHECK(buffer[0] == 1 && buffer[SMALL - 1] == 1);
    check_zero(buffer + SMALL, buffer + size);
    dallocx(buffer, 0);
}

static void *give(extent_hooks_t *hooks, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    (void)hooks, (void)arena;
    *zero = *commit = true;
    if (address != NULL)
        return NULL;
    char *start = mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start + (align - (size_t)start % align) % align;
}

static bool keep(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena) {
    (void)hooks, (void)address, (void)size, (void)committed, (void)arena;
    return true;
}

static void hooks(void) {
    extent_hooks_t ours = { .alloc = give, .dalloc = keep }, *new = &ours, *usual;
    unsigned arena;
    size_t size = sizeof arena, hooks_size = sizeof usual;
    char name[40];
    CHECK_EQ(mallctl("arena.0.extent_hooks", &usual, &hooks_size, NULL, 0), 0);
    CHECK_EQ(mallctl("arenas.create", &arena, &size, &new, sizeof new), 0);
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    char *object = mallocx(LARGE, flags);
    CHECK(object != NULL);
    dallocx(memset(object, 1, LARGE), flags);
    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, &usual, sizeof usual), 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK((object = mallocx(LARGE, flags | MALLOCX_ZERO)) != NULL);
        check_zero(object, object + LARGE);
        dallocx(memset(object, 1, LARGE), flags);
    }
}

int main(int count, char **arguments) {
    if (count > 2 && strcmp(arguments[1], "guarded") == 0)
        guarded((size_t)atol(arguments[2]));
    else
        hooks();
    return 0;
}
