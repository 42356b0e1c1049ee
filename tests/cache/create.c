// Creating and destroying caches: what is refused and why, sizes and places of objects, figures in structs of other lengths, ids that are used again.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdint.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "check.h"

static vmag_cache_t *create(size_t size, size_t align, int flags) {
    return vmag_cache_create("objects", size, align, NULL, NULL, NULL, NULL, NULL, flags);
}

static void refused(size_t size, size_t align, int flags, int why) {
    errno = 0;
    CHECK(create(size, align, flags) == NULL);
    CHECK_EQ(errno, why);
}

static struct vmag_cache_stats stats_of(vmag_cache_t *cache) {
    struct vmag_cache_stats stats;

    vmag_cache_stats(cache, &stats, sizeof stats);
    return stats;
}

static void refusals(void) {
    vmag_vmem_t *pages = vmag_vmem_create("pages", (void *)0x100000, 1 << 20, 4096, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);

    errno = 0;
    CHECK(vmag_cache_create(NULL, 8, 0, NULL, NULL, NULL, NULL, NULL, 0) == NULL && errno == EINVAL);
    refused(0, 0, 0, EINVAL);
    refused(64, 24, 0, EINVAL);
    refused(64, 3, 0, EINVAL);
    refused(64, 0, 1, EINVAL);
    refused(64, 0, 1 << 30, EINVAL);
    refused(SIZE_MAX, 0, 0, ENOMEM);
    refused((size_t)PTRDIFF_MAX, 0, 0, ENOMEM);
    errno = 0;
    CHECK(vmag_cache_create("wide", 64, 8192, NULL, NULL, NULL, NULL, pages, VMAG_CACHE_NOTOUCH) == NULL && errno == EINVAL);
    vmag_vmem_destroy(pages);
}

// Waste at most an eighth, places aligned, objects apart (checklist S4, S5, S6).
static void shape(size_t size, size_t align) {
    vmag_cache_t *cache = create(size, align, 0);
    struct vmag_cache_stats stats = stats_of(cache);
    size_t least = align != 0 ? align : size >= 16 ? 16 : 8, count = 3 * stats.slab_objects;
    uintptr_t *objects = malloc(count * sizeof *objects);

    CHECK_EQ(stats.object_bytes, size);
    CHECK_EQ(vmag_cache_object_size(cache), size);
    CHECK(stats.chunk_bytes >= size && stats.chunk_bytes % least == 0 && stats.chunk_bytes < size + least);
    CHECK_GE(stats.slab_objects, 1);
    CHECK_LE((stats.slab_bytes - stats.slab_objects * stats.chunk_bytes) * 8, stats.slab_bytes);
    if (count > 4096)
        count = 4096;
    for (size_t i = 0; i < count; i++) {
        objects[i] = (uintptr_t)vmag_cache_alloc(cache, VMAG_NOSLEEP);
        CHECK(objects[i] != 0 && objects[i] % least == 0);
        memset((void *)objects[i], 0x5a, size);
    }
    for (size_t i = 0; i < count; i++)
        vmag_cache_free(cache, (void *)objects[i]);
    vmag_cache_destroy(cache);
    free(objects);
}

// First objects of successive slabs differ where the rest of a slab leaves room.
static void colouring(void) {
    vmag_cache_t *cache = create(1200, 0, 0);
    struct vmag_cache_stats stats = stats_of(cache);
    void *objects[512];
    size_t starts[2] = { 0, 0 }, slabs = 0;

    CHECK_GT(stats.slab_colours, 1);
    CHECK_LE((stats.slab_colours - 1) * stats.align, stats.slab_bytes - stats.slab_objects * stats.chunk_bytes);
    CHECK_LE(2 * stats.slab_objects, 512);
    for (size_t i = 0; i < 2 * stats.slab_objects; i++)
        objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP);
    slabs = stats_of(cache).slabs;
    CHECK_EQ(slabs, 2);
    for (int half = 0; half < 2; half++) { // the lowest object of each slab
        uintptr_t lowest = UINTPTR_MAX;
        for (size_t i = 0; i < stats.slab_objects; i++)
            if ((uintptr_t)objects[(size_t)half * stats.slab_objects + i] < lowest)
                lowest = (uintptr_t)objects[(size_t)half * stats.slab_objects + i];
        starts[half] = lowest % 4096;
    }
    CHECK_NE(starts[0], starts[1]);
    vmag_cache_free_batch(cache, objects, 2 * stats.slab_objects);
    vmag_cache_destroy(cache);
}

// Who was compiled with fewer figures, or with later ones, gets as many bytes as that: those that there are, then zeroes.
static void of_other_versions(void) {
    static const size_t sizes[] = { 0, sizeof(size_t), sizeof(struct vmag_cache_stats) - 8, sizeof(struct vmag_cache_stats),
                                    sizeof(struct vmag_cache_stats) + 8, sizeof(struct vmag_cache_stats) + 64 };
    vmag_cache_t *cache = create(100, 0, 0);
    struct {
        struct vmag_cache_stats known;
        unsigned char later[128];
    } got;
    struct vmag_cache_stats now;

    vmag_cache_free(cache, vmag_cache_alloc(cache, VMAG_NOSLEEP));
    now = stats_of(cache);
    CHECK(now.object_bytes == 100 && now.slab_allocs > 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const unsigned char *bytes = (const unsigned char *)&got;

        memset(&got, 0xa5, sizeof got);
        vmag_cache_stats(cache, &got.known, sizes[i]);
        CHECK_EQ(memcmp(&got, &now, sizes[i] < sizeof now ? sizes[i] : sizeof now), 0);
        for (size_t at = sizeof now; at < sizes[i]; at++)
            CHECK_EQ(bytes[at], 0);
        for (size_t at = sizes[i]; at < sizeof got; at++)
            CHECK_EQ(bytes[at], 0xa5);
    }
    vmag_cache_destroy(cache);
}

static void find(void *found, vmag_cache_t *cache) {
    if (strcmp(vmag_cache_name(cache), "a name that is longer than thir") == 0)
        *(vmag_cache_t **)found = cache;
}

static void names(void) {
    vmag_cache_t *found = NULL, *cache = vmag_cache_create("a name that is longer than thirty-one characters", 8, 0, NULL, NULL, NULL,
                                                           NULL, NULL, 0);

    vmag_cache_each(find, &found);
    CHECK(found == cache);
    vmag_cache_destroy(cache);
    found = NULL;
    vmag_cache_each(find, &found);
    CHECK(found == NULL);
    vmag_cache_destroy(NULL);
    vmag_cache_free(create(8, 0, 0), NULL);
}

// Ids are used again, magazines of an old cache never serve a new one.
static void many(void) {
    static vmag_cache_t *caches[300];

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 300; i++) {
            caches[i] = create(16 + (size_t)i, 0, 0);
            void *object = vmag_cache_alloc(caches[i], VMAG_NOSLEEP);
            CHECK(object != NULL);
            vmag_cache_free(caches[i], object);
        }
        for (int i = 0; i < 300; i++)
            vmag_cache_destroy(caches[(i * 7) % 300]);
    }
}

// More caches than have words on the fast path, all alike: each has magazines of its own, and gets nothing of the others.
static void beyond_the_fast_path(void) {
    enum { CACHES = 700, OBJECTS = 5, ROUNDS = 20, MARK = 0xabcd0000 };
    static vmag_cache_t *caches[CACHES];
    size_t *objects[OBJECTS], cached = 0;

    for (size_t i = 0; i < CACHES; i++)
        CHECK((caches[i] = create(64, 0, 0)) != NULL);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < CACHES; i++) {
            for (size_t k = 0; k < OBJECTS; k++) {
                objects[k] = vmag_cache_alloc(caches[i], VMAG_NOSLEEP);
                CHECK(objects[k][1] - MARK >= CACHES || objects[k][1] == MARK + i);
                objects[k][1] = MARK + i;
            }
            for (size_t k = 0; k < OBJECTS; k++)
                vmag_cache_free(caches[i], objects[k]);
        }
    for (size_t i = 0; i < CACHES; i++) {
        CHECK_EQ(stats_of(caches[i]).in_use, 0);
        CHECK_LT(stats_of(caches[i]).slab_allocs, ROUNDS * OBJECTS / 2); // the others were hits
        cached += stats_of(caches[i]).cached;
    }
    CHECK_GE(cached, CACHES * OBJECTS);
    for (size_t i = 0; i < CACHES; i++)
        vmag_cache_destroy(caches[i]);
}

int main(void) {
    refusals();
    for (size_t size = 1; size <= 140000; size += size < 600 ? 7 : size / 5)
        shape(size, 0);
    for (size_t align = 8; align <= 1 << 16; align *= 4)
        shape(24, align);
    shape(1 << 20, 0);
    shape(5000000, 0);
    colouring();
    of_other_versions();
    names();
    many();
    beyond_the_fast_path();
    return 0;
}
