// Extent hooks that allocate and free, called by a thread that is bound to their arena: what they get is arena 0's, they are not called again
// meanwhile, and what the thread has in its own hands stays whole.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/pattern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "jemalloc/jemalloc.h"

enum { OBJECTS = 3000, KEPT = 64, ROUNDS = 4 };

static extent_hooks_t hooks, *defaults;
static unsigned own_arena, inside, calls[3];

static unsigned arena_of(void *object) {
    unsigned id;
    size_t size = sizeof id;

    CHECK_EQ(mallctl("arenas.lookup", &id, &size, &object, sizeof object), 0);
    return id;
}

static void free_here(void *object) {
    CHECK(object != NULL);
    CHECK_EQ(arena_of(object), 0);
    free(object);
}

// All kinds of sizes, some for longer than the call.
static void allocate(void) {
    static const size_t sizes[] = {16, 24, 48, 100, 640, 1024, 5000, 20000, 60000, 100000, 3 << 20};
    static struct {
        void *object;
        size_t size;
    } kept[KEPT];
    static unsigned turn;

    CHECK_EQ(inside, 0);
    inside++;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned slot = turn++ % KEPT;
        void *object = malloc(sizes[i] / 2);

        if (kept[slot].object != NULL)
            pattern_verify(kept[slot].object, kept[slot].size, slot);
        free(kept[slot].object);
        CHECK(object != NULL && (object = realloc(object, sizes[i])) != NULL);
        CHECK_EQ(arena_of(object), 0);
        pattern_fill(object, sizes[i], slot);
        kept[slot].object = object;
        kept[slot].size = sizes[i];
        free_here(calloc(3, sizes[i]));
        free_here(calloc(1, sizes[i]));
        free_here(aligned_alloc(64, (sizes[i] + 63) & ~(size_t)63));
        free_here(mallocx(sizes[i], 0));
        free_here(mallocx(sizes[i], MALLOCX_ZERO));
        free_here(mallocx(sizes[i], MALLOCX_TCACHE_NONE));
        free_here(rallocx(mallocx(sizes[i], 0), 2 * sizes[i], MALLOCX_ZERO));
    }
    inside--;
}

static void *hook_alloc(extent_hooks_t *own, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    (void)own;
    calls[0]++;
    allocate();
    return defaults->alloc(defaults, address, size, align, zero, commit, arena);
}

static bool hook_dalloc(extent_hooks_t *own, void *address, size_t size, bool committed, unsigned arena) {
    (void)own;
    calls[1]++;
    allocate();
    return defaults->dalloc(defaults, address, size, committed, arena);
}

static bool hook_purge(extent_hooks_t *own, void *address, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)own, (void)size, (void)arena;
    calls[2]++;
    allocate();
    return madvise((char *)address + offset, length, MADV_DONTNEED) != 0;
}

static void set(const char *name, void *value, size_t size) {
    char full[64];

    snprintf(full, sizeof full, name, own_arena);
    CHECK_SAY(mallctl(full, NULL, NULL, value, size) == 0, "%s", full);
}

static size_t stat(const char *name) {
    char full[64];
    size_t value, size = sizeof value;
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    snprintf(full, sizeof full, name, own_arena);
    CHECK_EQ(mallctl(full, &value, &size, NULL, 0), 0);
    return value;
}

static size_t size_of(size_t i, int round) {
    if (i % 40 == 7)
        return 14000 + i * 17 % 50000; // of which the thread keeps some at hand
    return i % 200 == 0 ? 70000 + i * 40 : 1 + (i * 31 + (size_t)round * 17) % 3000;
}

static void use(int round) {
    static void *objects[OBJECTS];

    for (size_t i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = malloc(size_of(i, round))) != NULL);
        CHECK_EQ(arena_of(objects[i]), own_arena);
        pattern_fill(objects[i], size_of(i, round), i);
    }
    for (size_t j = 0; j < OBJECTS; j++) {
        size_t i = j * 7 % OBJECTS;

        pattern_verify(objects[i], size_of(i, round), i);
        free(objects[i]);
    }
}

int main(void) {
    unsigned before;
    size_t size = sizeof defaults;
    ssize_t decay = 0;
    extent_hooks_t *own = &hooks;

    CHECK_EQ(mallctl("arena.0.extent_hooks", &defaults, &size, NULL, 0), 0);
    hooks = *defaults;
    hooks.alloc = hook_alloc;
    hooks.dalloc = hook_dalloc;
    hooks.purge_lazy = NULL;
    hooks.purge_forced = hook_purge;
    size = sizeof own_arena;
    CHECK_EQ(mallctl("arenas.create", &own_arena, &size, &own, sizeof own), 0);
    CHECK_EQ(mallctl("thread.arena", &before, &size, &own_arena, sizeof own_arena), 0);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2)
            set("arena.%u.dirty_decay_ms", &decay, sizeof decay);
        use(round);
        set("arena.%u.purge", NULL, 0);
    }
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &before, sizeof before), 0);
    CHECK_EQ(stat("stats.arenas.%u.small.allocated"), 0);
    CHECK_EQ(stat("stats.arenas.%u.large.allocated"), 0);
    set("arena.%u.destroy", NULL, 0);
    CHECK(calls[0] > 0 && calls[1] > 0 && calls[2] > 0);
    say("%u, %u and %u calls", calls[0], calls[1], calls[2]);
    return 0;
}
