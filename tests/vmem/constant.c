// Tests that the work of a request does not grow with fragmentation: segments looked at, and steps along hash chains, are counted. Nor does that of adding
// a span with those that are there: of 100,000 in order, upwards and downwards, which looked at all before each, took 44 s on a machine with much to do.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <stdint.h>
#include <time.h>

#include "../check.h"

enum { LARGEST = 64, OPERATIONS = 20000, SPANS = 100000, SECONDS_MOST = 5 };

static uint64_t state = 5;

static size_t random_below(size_t limit) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % limit;
}

static uint64_t steps(vmag_vmem_t *arena) {
    struct vmag_vmem_stats stats;

    vmag_vmem_stats(arena, &stats, sizeof stats);
    return stats.searches + stats.lookups;
}

// Free segments of 1 to 64 integers between allocated ones, and a free rest. `stride`: how far apart everything is.
static vmag_vmem_t *fragmented(size_t segments, size_t stride) {
    vmag_vmem_t *arena = vmag_vmem_create("fragmented", (void *)stride, (segments * 2 * LARGEST * 2 + (1 << 20)) * stride, stride, NULL,
                                          NULL, NULL, 0, VMAG_VM_SLEEP);
    void *last = NULL;
    size_t last_size = 0;

    for (size_t i = 0; i < 2 * segments; i++) {
        size_t size = (1 + random_below(LARGEST)) * stride;
        void *one = vmag_vmem_alloc(arena, size, VMAG_VM_NEXTFIT);

        if (i % 2 == 1)
            vmag_vmem_free(arena, last, last_size);
        last = one;
        last_size = size;
    }
    return arena;
}

// Mean number of steps of an alloc and a free.
static double mean_steps(vmag_vmem_t *arena, size_t least, size_t stride, int policy) {
    uint64_t before = steps(arena);

    for (int i = 0; i < OPERATIONS; i++) {
        size_t size = (least + random_below(LARGEST)) * stride;

        vmag_vmem_free(arena, vmag_vmem_alloc(arena, size, VMAG_VM_NOSLEEP | policy), size);
    }
    return (double)(steps(arena) - before) / OPERATIONS;
}

static void spans(void) {
    vmag_vmem_t *arena = vmag_vmem_create("spans", NULL, 0, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    uintptr_t middle = (uintptr_t)1 << 30;
    clock_t begin = clock();

    for (uintptr_t i = 0; i < SPANS / 2; i++) {
        CHECK(vmag_vmem_add(arena, (void *)(middle + i * 100), 64, VMAG_VM_SLEEP) != NULL);
        CHECK(vmag_vmem_add(arena, (void *)(middle - 100 - i * 100), 64, VMAG_VM_SLEEP) != NULL);
    }
    CHECK_LE((clock() - begin) / CLOCKS_PER_SEC, SECONDS_MOST);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_FREE), SPANS * 64);
    vmag_vmem_destroy(arena);
}

int main(void) {
    static const struct {
        int policy;
        const char *name;
        double most;
    } policies[] = {{VMAG_VM_INSTANTFIT, "instant", 2}, {VMAG_VM_BESTFIT, "best", 34}, {VMAG_VM_FIRSTFIT, "first", 34},
                    {VMAG_VM_NEXTFIT, "next", 34}};

    for (size_t stride = 1; stride <= 1 << 20; stride <<= 20)
        for (size_t segments = 1; segments <= 100000; segments *= 100000) {
            vmag_vmem_t *arena = fragmented(segments, stride);

            for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
                for (size_t least = 1; least <= 1 + LARGEST; least += LARGEST) {
                    double mean = mean_steps(arena, least, stride, policies[i].policy);

                    CHECK_SAY(mean < policies[i].most, "%zu segments, %s fit of %zu and more: %.1f steps", segments, policies[i].name,
                              least, mean);
                }
            vmag_vmem_walk(arena, VMAG_VMEM_ALLOC, (void (*)(void *, void *, size_t))(void *)vmag_vmem_free, arena);
            vmag_vmem_destroy(arena);
        }
    spans();
    return 0;
}
