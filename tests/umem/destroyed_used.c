// A cache that was destroyed is used again, by umem_cache_alloc or, with an argument, by umem_cache_free: while debugging this is told in one line.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>

int main(int count, char **arguments) {
    umem_cache_t *cache = umem_cache_create((char *)"used", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *object = umem_cache_alloc(cache, UMEM_NOFAIL);

    (void)arguments;
    umem_cache_free(cache, object);
    umem_cache_destroy(cache);
    if (count > 1)
        umem_cache_free(cache, object);
    else
        umem_cache_alloc(cache, UMEM_DEFAULT);
    return 0;
}
