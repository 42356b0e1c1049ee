// Batches of plain objects that are allocated and freed again and again need no more slabs than their objects: what was freed comes first.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>

#include "../check.h"

enum { SIZE = 64, MOST = 100, ROUNDS = 5000, SLABS_MOST = 4 };

int main(void) {
    vmag_cache_t *cache = vmag_cache_create("batches", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *objects[MOST];

    for (size_t count = 1; count <= MOST; count += 11) {
        struct vmag_cache_stats stats;

        for (int round = 0; round < ROUNDS; round++) {
            CHECK_EQ(vmag_cache_alloc_batch(cache, objects, count, VMAG_NOSLEEP), count);
            vmag_cache_free_batch(cache, objects, count);
        }
        vmag_cache_stats(cache, &stats, sizeof stats);
        CHECK_EQ(stats.in_use, 0);
        CHECK_LE(stats.slabs, SLABS_MOST);
    }
    vmag_cache_destroy(cache);
    return 0;
}
