// Pairs of allocating and freeing, for who counts their instructions: `pairs plain|sized|cache|after SIZE COUNT`; `after`: of an object cache after
// sampling was switched off, while an object lives that was sampled.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>

#include "../check.h"
#include "vmag/cache.h"

void free_sized(void *, size_t);

static void *keep_one_sampled(vmag_cache_t *cache) {
    bool on = true, off = false;
    size_t every_byte = 0;

    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &every_byte, sizeof every_byte), 0);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &on, sizeof on), 0);
    void *kept = vmag_cache_alloc(cache, 0); // the thread's first, which misses
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &off, sizeof off), 0);
    return kept;
}

static void of_cache(size_t size, long pairs, bool after) {
    vmag_cache_t *cache = vmag_cache_create("pairs", size, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *kept = after ? keep_one_sampled(cache) : NULL;

    for (long i = 0; i < pairs; i++) vmag_cache_free(cache, vmag_cache_alloc(cache, 0));
    if (after) vmag_cache_free(cache, kept);
    vmag_cache_destroy(cache);
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    size_t size = (size_t)atol(arguments[2]);
    long pairs = atol(arguments[3]);

    if (arguments[1][0] == 'c' || arguments[1][0] == 'a')
        of_cache(size, pairs, arguments[1][0] == 'a');
    else if (arguments[1][0] == 'p')
        for (long i = 0; i < pairs; i++) free(malloc(size));
    else
        for (long i = 0; i < pairs; i++) free_sized(malloc(size), size);
    return 0;
}
