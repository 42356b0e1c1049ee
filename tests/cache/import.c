// Caches whose source comes back into them while they fetch objects: it reaps, allocates from the same cache, or runs out and takes
// back what the caches hold. A magazine that is being filled is nobody else's meanwhile: no object is given out twice, none is lost.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "../check.h"

enum { BASE = 0x40000000, OBJECTS = 4000, OTHERS = 8, SIZE = 4096 };

static vmag_cache_t *cache;
static bool is_held[OBJECTS * 4];
static void *held[OBJECTS * 4];
static size_t holds;

static void hold(void *object) {
    size_t place = ((uintptr_t)object - BASE) / SIZE;

    CHECK(object != NULL);
    CHECK(place < OBJECTS * 4);
    CHECK(!is_held[place]);
    is_held[place] = true;
    held[holds++] = object;
}

static void free_all(void) {
    while (holds > 0)
        vmag_cache_free(cache, held[--holds]);
    memset(is_held, 0, sizeof is_held);
}

static vmag_vmem_t *integers;
static void (*comes_back)(void);

static void *import(vmag_vmem_t *source, size_t size, int flags) {
    static bool inside;

    if (!inside) {
        inside = true;
        comes_back();
        inside = false;
    }
    return vmag_vmem_alloc(source, size, flags);
}

static void reap(void) {
    vmag_caches_reap();
}

static void use(void) {
    for (int i = 0; i < 5; i++)
        hold(vmag_cache_alloc(cache, VMAG_NOSLEEP));
    vmag_cache_free(cache, held[--holds]);
    is_held[((uintptr_t)held[holds] - BASE) / SIZE] = false;
}

// Other caches whose new magazines would be the one that was lost.
static void others(void) {
    static vmag_cache_t *other[OTHERS];
    static void *object[OTHERS];

    for (int i = 0; i < OTHERS; i++) {
        other[i] = vmag_cache_create("other", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
        object[i] = vmag_cache_alloc(other[i], VMAG_NOSLEEP);
    }
    for (int i = 0; i < OTHERS; i++)
        vmag_cache_free(other[i], object[i]);
    if (holds < OBJECTS)
        for (int i = 0; i < 100; i++)
            hold(vmag_cache_alloc(cache, VMAG_NOSLEEP));
    for (int i = 0; i < OTHERS; i++)
        CHECK(vmag_cache_alloc(other[i], VMAG_NOSLEEP) == object[i]);
    for (int i = 0; i < OTHERS; i++) {
        vmag_cache_free(other[i], object[i]);
        vmag_cache_destroy(other[i]);
    }
}

static void from_import(void (*what)(void)) {
    vmag_vmem_t *arena;

    comes_back = what;
    integers = vmag_vmem_create("integers", (void *)BASE, (size_t)OBJECTS * 4 * SIZE, SIZE, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    arena = vmag_vmem_create("arena", NULL, 0, SIZE, import, vmag_vmem_free, integers, 0, VMAG_VM_SLEEP);
    cache = vmag_cache_create("back", SIZE, 0, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH);
    CHECK(integers != NULL && arena != NULL && cache != NULL);
    for (int i = 0; i < OBJECTS / 2; i++)
        hold(vmag_cache_alloc(cache, VMAG_NOSLEEP));
    others();
    free_all();
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(arena);
    CHECK_EQ(vmag_vmem_size(integers, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(integers);
}

// The source serves the cache's slabs from quantum caches, and is used up: it reaps the caches that live off it.
static void used_up(void) {
    vmag_vmem_t *arena =
        vmag_vmem_create("used_up", (void *)BASE, (size_t)OBJECTS * SIZE, SIZE, NULL, NULL, NULL, 65536, VMAG_VM_SLEEP);
    void *object;

    cache = vmag_cache_create("last", SIZE, 0, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH);
    CHECK(arena != NULL && cache != NULL);
    while ((object = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL)
        hold(object);
    holds--;
    is_held[((uintptr_t)held[holds] - BASE) / SIZE] = false;
    object = held[holds];
    vmag_cache_free(cache, object);
    size_t before = holds;
    holds = OBJECTS; // nothing more to take
    others();
    holds = before;
    CHECK(vmag_cache_alloc(cache, VMAG_NOSLEEP) == object);
    hold(object);
    vmag_caches_reap();
    free_all();
    vmag_caches_reap();
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(arena);
}

int main(void) {
    from_import(reap);
    from_import(use);
    used_up();
    return 0;
}
