// umem_cache_destroy of a cache that was destroyed ends the process: its memory is not to be free twice.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>

int main(void) {
    umem_cache_t *cache = umem_cache_create((char *)"twice", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

    umem_cache_destroy(cache);
    umem_cache_destroy(cache);
    return 0;
}
