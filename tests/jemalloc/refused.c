// Hooks that do not purge one of their extents: the dirty pages of the others go all the same, by a purge and in time.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <jemalloc/jemalloc.h>
#include <string.h>
#include <sys/mman.h>

#include "../check.h"

enum { PINNED = 5 << 20, OBJECTS = 100, SIZE = 512 << 10, BETWEEN = 64 << 10, LOOKS = 500 };

static uintptr_t pinned;
static long refused;

static void *give(extent_hooks_t *hooks, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    (void)hooks, (void)zero, (void)arena;
    char *start = address != NULL ? MAP_FAILED : mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *commit = true;
    return start == MAP_FAILED ? NULL : (void *)(((uintptr_t)start + align - 1) & -align);
}

static bool purge(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)hooks, (void)size, (void)arena;
    if ((uintptr_t)address == pinned) {
        refused++;
        return true;
    }
    return madvise((char *)address + offset, length, MADV_DONTNEED) != 0;
}

static extent_hooks_t hooks = {.alloc = give, .purge_forced = purge};
static unsigned arena;

static size_t dirty_bytes(void) {
    uint64_t epoch = 1;
    size_t pages, page, length = sizeof(size_t);
    char name[64];

    snprintf(name, sizeof name, "stats.arenas.%u.pdirty", arena);
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl(name, &pages, &length, NULL, 0), 0);
    CHECK_EQ(mallctl("arenas.page", &page, &length, NULL, 0), 0);
    return pages * page;
}

// The pinned extent has an object in use, and the largest free run of all.
static void fill_and_free(int flags) {
    static void *objects[OBJECTS];
    void *first = mallocx(PINNED, flags);

    CHECK(first != NULL);
    memset(first, 1, PINNED);
    pinned = (uintptr_t)first;
    CHECK(mallocx(BETWEEN, flags) != NULL);
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = mallocx(SIZE, flags);
        CHECK(objects[i] != NULL && mallocx(BETWEEN, flags) != NULL);
        memset(objects[i], 1, SIZE);
    }
    dallocx(first, flags);
    for (int i = 0; i < OBJECTS; i++)
        dallocx(objects[i], flags);
}

static void control(const char *format, void *value, size_t size) {
    char name[64];

    snprintf(name, sizeof name, format, arena);
    CHECK_EQ(mallctl(name, NULL, NULL, value, size), 0);
}

static void make(ssize_t decay_ms) {
    extent_hooks_t *own = &hooks;
    size_t length = sizeof arena;

    CHECK_EQ(mallctl("arenas.create", &arena, &length, &own, sizeof own), 0);
    control("arena.%u.dirty_decay_ms", &decay_ms, sizeof decay_ms);
    refused = 0;
    fill_and_free(MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
}

int main(void) {
    size_t most = PINNED + (2 << 20); // and what is left of the chunk

    make(-1);
    CHECK_GT(dirty_bytes(), (size_t)OBJECTS * SIZE);
    control("arena.%u.purge", NULL, 0);
    CHECK_GT(refused, 0);
    CHECK_GT(most, dirty_bytes());

    make(100);
    for (int i = 0; i < LOOKS && dirty_bytes() >= most; i++) {
        usleep(10000);
        control("arena.%u.decay", NULL, 0);
    }
    CHECK_GT(refused, 0);
    CHECK_GT(most, dirty_bytes());
    return 0;
}
