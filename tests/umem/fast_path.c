// Pairs of allocating and freeing, for who counts their instructions: `fast_path malloc|umem|cache SIZE COUNT`.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>

#include "../check.h"

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    size_t size = (size_t)atol(arguments[2]);
    long pairs = atol(arguments[3]);
    umem_cache_t *cache = umem_cache_create((char *)"fast", size, 0, NULL, NULL, NULL, NULL, NULL, 0);

    switch (arguments[1][0]) {
    case 'm':
        for (long i = 0; i < pairs; i++) free(malloc(size));
        break;
    case 'u':
        for (long i = 0; i < pairs; i++) umem_free(umem_alloc(size, UMEM_DEFAULT), size);
        break;
    default:
        for (long i = 0; i < pairs; i++) umem_cache_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
    }
    return 0;
}
