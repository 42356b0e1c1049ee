// An object freed to another cache of the same size.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    umem_cache_t *cache = umem_cache_create((char *)"right", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    umem_cache_t *other = umem_cache_create((char *)"wrong", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *object = umem_cache_alloc(cache, UMEM_DEFAULT);
    announce("umem_cache_free", object);
    umem_cache_free(other, object);
    return unnoticed();
}
