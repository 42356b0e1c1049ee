// Caches on arenas of the program's own, whose memory may be gone at exit: that of a cache that was destroyed with objects in it, and of one that was not destroyed.
// And quantum caches, and NULL.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>
#include <vmag/cache.h>

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../check.h"

enum { BYTES = 1 << 20, OBJECTS = 10, IDS = 100 };

static char *map(void) {
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    return memory;
}

static umem_cache_t *fill(vmem_t **arena, char *memory, void **objects) {
    umem_cache_t *cache;

    *arena = vmem_create("region", memory, BYTES, 4096, NULL, NULL, NULL, 0, VM_NOSLEEP);
    CHECK(*arena != NULL && (cache = umem_cache_create((char *)"object", 64, 0, NULL, NULL, NULL, NULL, *arena, 0)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
    return cache;
}

// What comes there instead is not ours.
static void destroyed_not_empty(void) {
    void *objects[OBJECTS];
    char *memory = map(), *others;
    vmem_t *arena;
    umem_cache_t *cache = fill(&arena, memory, objects);

    umem_cache_destroy(cache);
    vmem_destroy(arena);
    CHECK_EQ(munmap(memory, BYTES), 0);
    others = mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(others != MAP_FAILED);
    memset(others, 1, BYTES);
    free(malloc(100)); // looks at all buffers now and then, or always
    for (int i = 0; i < BYTES; i++)
        CHECK_EQ(others[i], 1);
}

static void unmapped_at_exit(void) {
    void *objects[OBJECTS];
    char *memory = map();
    vmem_t *arena;
    umem_cache_t *cache = fill(&arena, memory, objects);

    for (int i = 0; i < OBJECTS; i++)
        umem_cache_free(cache, objects[i]);
    CHECK_EQ(munmap(memory, BYTES), 0);
}

// What was freed, and is held back for a while when the program is debugged, comes back for the arena.
static void freed_comes_back(void) {
    void *objects[OBJECTS], *all;
    char *memory = map();
    vmem_t *arena;
    umem_cache_t *cache = fill(&arena, memory, objects);

    for (int i = 0; i < OBJECTS; i++)
        umem_cache_free(cache, objects[i]);
    CHECK((all = vmem_alloc(arena, BYTES, VM_NOSLEEP)) == memory);
    vmem_free(arena, all, BYTES);
    umem_cache_destroy(cache);
    vmem_destroy(arena);
    CHECK_EQ(munmap(memory, BYTES), 0);
}

static void quantum_caches(void) {
    vmem_t *ids = vmem_create("ids", (void *)1, IDS, 1, NULL, NULL, NULL, 1, VM_NOSLEEP);
    umem_cache_t *cache = umem_cache_create((char *)"plain", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *objects[IDS];

    umem_cache_free(cache, NULL);
    for (int i = 0; i < IDS; i++)
        CHECK((objects[i] = vmem_alloc(ids, 1, VM_NOSLEEP)) != NULL);
    for (int i = 0; i < IDS; i++)
        vmem_free(ids, objects[i], 1);
    umem_cache_destroy(cache);
    vmem_destroy(ids);
}

int main(void) {
    quantum_caches();
    freed_comes_back();
    destroyed_not_empty();
    unmapped_at_exit();
    return 0;
}
