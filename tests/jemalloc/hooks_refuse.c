// Extent hooks that give no more: before an allocation of their arena fails they get what lies unused in its slabs, which may be what they lack.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "jemalloc/jemalloc.h"

enum { OBJECTS = 4096, BYTES = 1024, LARGE = 4 << 20 };
#define KEPT (4 * (int)sysconf(_SC_PAGESIZE) / BYTES) // of so many one: there are pages between them

static extent_hooks_t hooks, *defaults;
static bool refuses;
static size_t purged;

static void *hook_alloc(extent_hooks_t *own, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    (void)own;
    return refuses ? NULL : defaults->alloc(defaults, address, size, align, zero, commit, arena);
}

static bool hook_purge(extent_hooks_t *own, void *address, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)own, (void)size, (void)arena;
    purged += length;
    return madvise((char *)address + offset, length, MADV_DONTNEED) != 0;
}

int main(void) {
    static void *objects[OBJECTS];
    extent_hooks_t *own = &hooks;
    unsigned arena;
    size_t size = sizeof defaults;
    int flags;

    CHECK_EQ(mallctl("arena.0.extent_hooks", &defaults, &size, NULL, 0), 0);
    hooks = *defaults;
    hooks.alloc = hook_alloc;
    hooks.purge_lazy = NULL;
    hooks.purge_forced = hook_purge;
    size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, &own, sizeof own), 0);
    flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = mallocx(BYTES, flags)) != NULL && memset(objects[i], i, BYTES) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        if (i % KEPT != 0)
            dallocx(objects[i], MALLOCX_TCACHE_NONE);
    refuses = true;
    purged = 0;
    CHECK(mallocx(LARGE, flags) == NULL);
    CHECK_GE(purged, OBJECTS * BYTES / 4);
    for (int i = 0; i < OBJECTS; i += KEPT)
        CHECK(*(unsigned char *)objects[i] == (i & 0xff));
    return 0;
}
