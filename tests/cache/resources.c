// Caches of what is no memory: ids, addresses that nothing is mapped at, enormous objects, the ends of the integers; many slabs,
// so that the hash grows; quantum caches.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <stdlib.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "unit.h"

static int by_value(const void *a, const void *b) {
    uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;
    return left < right ? -1 : left > right;
}

// Takes objects until there are no more, or `most`; all lie in [base, base + bytes), apart; gives them back in random order.
static size_t exercise(uintptr_t base, size_t bytes, size_t quantum, size_t size, size_t align, int flags, size_t most) {
    vmag_vmem_t *arena = vmag_vmem_create("resource", (void *)base, bytes, quantum, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    vmag_cache_t *cache = vmag_cache_create("resource", size, align, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH | flags);
    uintptr_t *objects = malloc(most * sizeof *objects);
    struct random random = { 5 };
    struct vmag_cache_stats stats;
    size_t count = 0;

    CHECK(arena != NULL && cache != NULL);
    while (count < most && (objects[count] = (uintptr_t)vmag_cache_alloc(cache, VMAG_NOSLEEP)) != 0)
        count++;
    qsort(objects, count, sizeof *objects, by_value);
    for (size_t i = 0; i < count; i++) {
        CHECK(objects[i] - base <= bytes - size && objects[i] % (align != 0 ? align : quantum) == 0);
        CHECK(i == 0 || objects[i] - objects[i - 1] >= size);
    }
    vmag_cache_stats(cache, &stats, sizeof stats);
    CHECK_EQ(stats.in_use, count);
    CHECK_EQ(stats.slabs * stats.slab_bytes, vmag_vmem_size(arena, VMAG_VMEM_ALLOC));
    for (size_t left = count; left > 0; left--) {
        size_t i = random_below(&random, left);

        vmag_cache_free(cache, (void *)objects[i]);
        objects[i] = objects[left - 1];
    }
    vmag_cache_stats(cache, &stats, sizeof stats);
    CHECK_EQ(stats.in_use, 0);
    vmag_cache_destroy(cache);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(arena);
    free(objects);
    return count;
}

// A slab for each id would cost us a slab header each (checklist S10).
static void ids_share_slabs(void) {
    vmag_vmem_t *arena = vmag_vmem_create("ids", (void *)1, 100000, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    vmag_cache_t *cache = vmag_cache_create("id", 1, 0, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH);
    struct vmag_cache_stats stats;

    vmag_cache_stats(cache, &stats, sizeof stats);
    CHECK_GE(stats.slab_objects, 64);
    CHECK_EQ(stats.chunk_bytes, 1);
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(arena);
}

int main(void) {
    const size_t page = 4096, tib = (size_t)1 << 40;

    CHECK_EQ(exercise(1, 64 * 100, 1, 1, 0, 0, 10000), 6400);
    CHECK_EQ(exercise(1, 100000, 1, 3, 0, 0, 1000), 1000);
    CHECK_EQ(exercise(0xfffffffffff00000, 0xf0000, 1, 1, 0, 0, 100000), 100000);   // the top of the integers
    CHECK_EQ(exercise(0xffff800000000000, tib, page, page, 0, 0, 20000), 20000);   // no address of any process
    CHECK_EQ(exercise(page, 4096 * tib, page, 3 * page, 0, 0, 50000), 50000);
    CHECK_EQ(exercise(tib, 4096 * tib, tib, tib, 0, 0, 4000), 4000);               // a terabyte each: 64 bits are needed
    CHECK_EQ(exercise(page, 512 * tib, page, 5 * ((size_t)1 << 30) + page, page, 0, 500), 500);
    CHECK_EQ(exercise(4096, 1 << 30, 512, 512, 0, 0, 100000), 100000);             // disk blocks, thousands of slabs
    CHECK_GE(exercise(page, (size_t)64 * 1024 * page, page, page, 0, VMAG_CACHE_NOMAGAZINE, 60000), 60000);
    for (size_t n = 1; n <= 8; n++)
        CHECK_EQ(exercise(page, 1000000 * page, page, n * page, 0, VMAG_CACHE_QUANTUM, 5000), 5000);
    ids_share_slabs();
    return 0;
}
