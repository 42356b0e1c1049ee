// Callbacks of caches and arenas that do at random what a program may do in them: use the same cache and others, reap, make and destroy
// caches, allocate from the arenas. No object is given out twice, what is in it stays, and all comes back at the end.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "../check.h"

enum { BASE = 0x40000000, PAGES = 1 << 14, PAGE = 4096, CACHES = 6, HELD = 150, THREADS = 4, DEEP = 3, BATCH = 40 };

static vmag_cache_t *cache[CACHES];
static vmag_vmem_t *integers, *middle, *arena;
static _Atomic unsigned char is_held[PAGES * 4]; // quarters of pages
static _Atomic long constructed;

static __thread struct {
    void *object[CACHES][HELD];
    size_t count[CACHES];
    uint64_t random;
    int depth;
} me;

static unsigned any(unsigned below) {
    me.random = me.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(me.random >> 33) % below;
}

// Of the arenas' caches no memory is behind the addresses: marks in a table stand for contents.
static bool is_memory(unsigned c) {
    return c < 2;
}

static void take(unsigned c, void *object) {
    if (is_memory(c)) {
        CHECK(c == 0 || *(uint64_t *)object == (uintptr_t)object);
        CHECK(((uint64_t *)object)[1] != ~(uintptr_t)object);
        ((uint64_t *)object)[1] = ~(uintptr_t)object;
    } else {
        size_t place = ((uintptr_t)object - BASE) / (PAGE / 4);
        CHECK(place < PAGES * 4);
        CHECK_EQ(is_held[place]++, 0);
    }
    me.object[c][me.count[c]++] = object;
}

static void *give(unsigned c) {
    size_t at = any((unsigned)me.count[c]);
    void *object = me.object[c][at];

    me.object[c][at] = me.object[c][--me.count[c]];
    if (is_memory(c)) {
        CHECK_EQ(((uint64_t *)object)[1], ~(uintptr_t)object);
        ((uint64_t *)object)[1] = 0;
    } else
        CHECK_EQ(is_held[((uintptr_t)object - BASE) / (PAGE / 4)]--, 1);
    return object;
}

static void alloc_one(unsigned c) {
    void *object = vmag_cache_alloc(cache[c], VMAG_NOSLEEP);

    if (object == NULL)
        return;
    if (c == 0 && ((uint64_t *)object)[1] == ~(uintptr_t)object)
        ((uint64_t *)object)[1] = 0; // left from before
    if (me.count[c] < HELD)
        take(c, object);
    else
        vmag_cache_free(cache[c], object);
}

static void alloc_batch(unsigned c) {
    void *objects[BATCH];
    size_t got = vmag_cache_alloc_batch(cache[c], objects, any(BATCH) + 1, VMAG_NOSLEEP), kept = 0;

    while (kept < got && me.count[c] < HELD)
        take(c, objects[kept++]);
    vmag_cache_free_batch(cache[c], objects + kept, got - kept);
}

static void free_some(unsigned c) {
    void *objects[BATCH];
    size_t count = 0, most = any(2) ? any(BATCH) : 1;

    while (count < most && me.count[c] > 0)
        objects[count++] = give(c);
    vmag_cache_free_batch(cache[c], objects, count);
}

static void reserve(unsigned c) {
    vmag_reserve_t *reserve = vmag_cache_reserve(cache[c], any(BATCH) + 1, VMAG_NOSLEEP);

    if (reserve == NULL)
        return;
    while (me.count[c] < HELD && any(8) != 0) {
        void *object = vmag_reserve_alloc(reserve);
        if (object == NULL)
            break;
        take(c, object);
    }
    vmag_reserve_release(reserve);
}

static void another(void) {
    vmag_cache_t *other = vmag_cache_create("other", 64, 0, NULL, NULL, NULL, NULL, any(2) ? NULL : arena, any(2) ? 0 : VMAG_CACHE_NOMAGAZINE);
    (void)other;
    vmag_cache_destroy(other);
}

static void from_arena(vmag_vmem_t *from) {
    size_t size = (any(6) + 1) * PAGE;
    void *address = vmag_vmem_alloc(from, size, VMAG_VM_NOSLEEP);

    if (address != NULL)
        vmag_vmem_free(from, address, size);
}

static void act(void);

static void walked(void *argument, void *address, size_t size) {
    (void)argument, (void)address, (void)size;
    if (any(8) == 0)
        act();
}

static void act(void) {
    unsigned c = any(CACHES);

    if (me.random == 0 || me.depth == DEEP)
        return;
    me.depth++;
    switch (any(24)) {
    default: alloc_one(c); break;
    case 6: case 7: case 8: case 9: case 10: free_some(c); break;
    case 11: alloc_batch(c); break;
    case 12: reserve(c); break;
    case 13: if (any(4) == 0) vmag_caches_reap(); break;
    case 14: vmag_cache_reap(cache[c]); break;
    case 15: from_arena(arena); break;
    case 16: from_arena(middle); break;
    case 17: if (any(8) == 0) another(); break;
    case 18: free(malloc(any(100000))); break;
    case 19: if (any(20) == 0) vmag_vmem_walk(any(2) ? arena : middle, VMAG_VMEM_ALLOC | VMAG_VMEM_FREE, walked, NULL); break;
    }
    me.depth--;
}

static int construct(void *object, void *argument, int flags) {
    (void)argument, (void)flags;
    if (argument == NULL) {
        *(uint64_t *)object = (uintptr_t)object;
        ((uint64_t *)object)[1] = 0;
    }
    constructed++;
    act();
    if (any(50) != 0)
        return 0;
    constructed--;
    return -1;
}

static void destruct(void *object, void *argument) {
    if (argument == NULL)
        CHECK_EQ(*(uint64_t *)object, (uintptr_t)object);
    constructed--;
    act();
}

static void reclaim(void *argument) {
    (void)argument;
    act();
}

static void *import(vmag_vmem_t *source, size_t size, int flags) {
    void *address;

    act();
    address = vmag_vmem_alloc(source, size, flags);
    act();
    return address;
}

static void release(vmag_vmem_t *source, void *address, size_t size) {
    act();
    vmag_vmem_free(source, address, size);
    act();
}

static void *work(void *seed) {
    me.random = ((uintptr_t)seed + 1) * 0x9E3779B97F4A7C15u | 1;
    for (int i = 0; i < 40000; i++)
        act();
    for (unsigned c = 0; c < CACHES; c++)
        while (me.count[c] > 0)
            free_some(c);
    me.depth = DEEP; // callbacks may have taken more meanwhile
    for (unsigned c = 0; c < CACHES; c++)
        while (me.count[c] > 0)
            vmag_cache_free(cache[c], give(c));
    return NULL;
}

static void run(uintptr_t seed, int threads) {
    pthread_t thread[THREADS];

    integers = vmag_vmem_create("integers", (void *)BASE, (size_t)PAGES * PAGE, PAGE, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    middle = vmag_vmem_create("middle", NULL, 0, PAGE, import, release, integers, 4 * PAGE, VMAG_VM_SLEEP);
    arena = vmag_vmem_create("arena", NULL, 0, PAGE, import, release, middle, 0, VMAG_VM_SLEEP);
    cache[0] = vmag_cache_create("plain", 200, 0, NULL, NULL, reclaim, NULL, NULL, 0);
    cache[1] = vmag_cache_create("built", 400, 0, construct, destruct, reclaim, NULL, NULL, 0);
    cache[2] = vmag_cache_create("number", PAGE, 0, NULL, NULL, reclaim, NULL, arena, VMAG_CACHE_NOTOUCH);
    cache[3] = vmag_cache_create("built number", PAGE, 0, construct, destruct, NULL, &cache, arena, VMAG_CACHE_NOTOUCH);
    cache[4] = vmag_cache_create("direct", PAGE, 0, NULL, NULL, NULL, NULL, middle, VMAG_CACHE_NOTOUCH | VMAG_CACHE_NOMAGAZINE);
    cache[5] = vmag_cache_create("large", 3 * PAGE, 0, NULL, NULL, NULL, NULL, middle, VMAG_CACHE_NOTOUCH);
    for (int i = 1; i < threads; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, work, (void *)(seed + (uintptr_t)i)), 0);
    work((void *)seed);
    for (int i = 1; i < threads; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    for (int c = 0; c < CACHES; c++)
        vmag_cache_destroy(cache[c]);
    CHECK_EQ(constructed, 0);
    vmag_vmem_destroy(arena);
    vmag_vmem_destroy(middle);
    CHECK_EQ(vmag_vmem_size(integers, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(integers);
    me.depth = 0;
}

int main(int argc, char **argv) {
    uintptr_t seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 2;

    run(seed, 1);
    run(seed + 100, THREADS);
    return 0;
}
