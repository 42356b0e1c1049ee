// A cache of integers (NOTOUCH): an integer freed twice is told although nothing can be written into it.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    vmem_t *ids = vmem_create("ids", (void *)1000, 1000, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
    umem_cache_t *cache = umem_cache_create((char *)"id", 1, 1, NULL, NULL, NULL, NULL, ids, UMC_NOTOUCH);
    void *id = umem_cache_alloc(cache, UMEM_DEFAULT);
    announce("umem_cache_free", id);
    umem_cache_free(cache, id);
    umem_cache_free(cache, id);
    return unnoticed();
}
