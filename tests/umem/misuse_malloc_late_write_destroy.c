// A freed buffer is held back, and a late write to it told, although another cache is destroyed meanwhile.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    umem_cache_t *other = umem_cache_create((char *)"other", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    char *object = malloc(SIZE);
    announce("exit", object);
    free(object);
    umem_cache_free(other, umem_cache_alloc(other, UMEM_DEFAULT));
    umem_cache_destroy(other);
    ((char *)hidden(object))[7] = 1;
    return 0;
}
