// umem_cache_free twice: with nothing watched it is seen when the object is back in its slab.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    umem_cache_t *cache = umem_cache_create((char *)"crime", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *object = umem_cache_alloc(cache, UMEM_DEFAULT);
    announce("umem_cache_free", object);
    umem_cache_free(cache, object);
    umem_cache_free(cache, hidden(object));
    umem_cache_destroy(cache);
    return unnoticed();
}
