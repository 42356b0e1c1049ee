// Shapes of slabs over all sizes and several quanta: the waste is at most an eighth, buffers fit, and every address finds its
// buffer or none.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/slabs.h"

#include "cache/table.h"
#include "heap/heap.h"
#include "unit.h"

static double worst;

static void check(size_t stride, size_t quantum, int flags) {
    struct slab_shape shape = cache_shape(stride, quantum, 0, 0, flags);
    size_t waste = shape.slab_bytes - shape.buffers * shape.size;

    CHECK(shape.buffers > 0 && shape.size == stride && shape.slab_bytes % quantum == 0 && shape.buffers * stride <= shape.slab_bytes);
    if (flags & VMAG_CACHE_QUANTUM) {
        CHECK(is_power_of_two(shape.slab_bytes / quantum) && shape.buffers >= 64);
        return;
    }
    CHECK_SAY(waste * 8 <= shape.slab_bytes, "size %zu, quantum %zu: %zu of %zu wasted", stride, quantum, waste, shape.slab_bytes);
    if ((double)waste / (double)shape.slab_bytes > worst)
        worst = (double)waste / (double)shape.slab_bytes;
}

// Through bin_probe: each offset of a slab, and its neighbours.
static void check_finding(size_t size, size_t align) {
    struct cache_description wanted = { .name = "finding", .size = size, .align = align };
    struct vmag_cache *cache = cache_create(&wanted);
    void *object = cache_alloc(cache, VMAG_NOSLEEP);
    uintptr_t start = cache->slabs->start, first = run_start(&cache_slab_body(cache->slabs)->run);

    CHECK(bin_probe(&cache->bin, object) == BIN_OK);
    for (size_t offset = 0; offset < cache->bin.shape.slab_bytes; offset++) {
        enum bin_finding finding = bin_probe(&cache->bin, (void *)(start + offset));
        uintptr_t from_first = start + offset - first;
        bool is_start = start + offset >= first && from_first % cache->bin.shape.size == 0 &&
                        from_first / cache->bin.shape.size < cache->bin.shape.buffers;

        CHECK((finding == BIN_NOT_A_START) == !is_start);
    }
    CHECK_EQ(bin_probe(&cache->bin, (void *)(start - 1)), BIN_NOT_HERE);
    CHECK_EQ(bin_probe(&cache->bin, (void *)(start + cache->bin.shape.slab_bytes)), BIN_NOT_HERE);
    cache_free(cache, object);
    cache_destroy(cache, "test");
}

int main(void) {
    CHECK(heap_ready());
    for (size_t size = 8; size <= 140000; size += 8) {
        check(size, 4096, 0);
        check(size, 16384, 0);
        check(size, 65536, 0);
        check(size, 512, 0);
        check(size, 2048, 0);
    }
    say("worst waste %.1f %%", 100 * worst);
    for (size_t size = 1; size < 3000; size++)
        check(size, 1, VMAG_CACHE_NOTOUCH);
    for (size_t n = 1; n <= 16; n++)
        check(n * 4096, 4096, VMAG_CACHE_NOTOUCH | VMAG_CACHE_QUANTUM);
    CHECK_EQ(cache_shape(16384, 512, 0, 0, 0).slab_bytes, 16384);
    check((size_t)1 << 40, 4096, 0);
    CHECK_EQ(cache_shape(SIZE_MAX / 2, 1, 0, 0, 0).buffers, 0);
    CHECK_EQ(cache_shape(4096, 4096, 4096 * 48, 0, 0).buffers, 48);
    check_finding(24, 0);
    check_finding(1200, 0);
    check_finding(1200, 64);
    check_finding(3000, 0);
    check_finding(100000, 0);
    return 0;
}
