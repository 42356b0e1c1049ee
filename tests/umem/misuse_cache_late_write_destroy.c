// An object of a cache written after it was freed: told by the end of the cache, in that call's name.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    umem_cache_t *cache = umem_cache_create((char *)"crime", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    char *object = umem_cache_alloc(cache, UMEM_DEFAULT);
    announce("umem_cache_destroy", object);
    umem_cache_free(cache, object);
    ((char *)hidden(object))[7] = 1;
    umem_cache_destroy(cache);
    return unnoticed();
}
