// A program that allocates a little by every interface and says nothing.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>

int main(void) {
    umem_cache_t *cache = umem_cache_create((char *)"quiet", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (int i = 1; i < 300; i++) {
        umem_cache_free(cache, umem_cache_alloc(cache, UMEM_NOFAIL));
        umem_free(umem_alloc((size_t)i * 20, UMEM_NOFAIL), (size_t)i * 20);
        free(malloc((size_t)i * 30));
    }
    umem_cache_destroy(cache);
    return 0;
}
