// Pairs of allocating and freeing, for who counts their instructions: `fast_path malloc|cache|quantum SIZE COUNT`.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "check.h"

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    int of_cache = strcmp(arguments[1], "cache") == 0;
    size_t size = (size_t)atol(arguments[2]);
    long pairs = atol(arguments[3]);
    vmag_cache_t *cache = vmag_cache_create("fast", size, 0, NULL, NULL, NULL, NULL, NULL, 0);

    if (of_cache)
        for (long i = 0; i < pairs; i++)
            vmag_cache_free(cache, vmag_cache_alloc(cache, VMAG_NOSLEEP));
    else if (strcmp(arguments[1], "quantum") == 0) {
        vmag_vmem_t *arena = vmag_vmem_create("fast", (void *)64, 1 << 24, 16, NULL, NULL, NULL, 1024, VMAG_VM_SLEEP);

        for (long i = 0; i < pairs; i++)
            vmag_vmem_free(arena, vmag_vmem_alloc(arena, size, VMAG_VM_NOSLEEP), size);
    } else
        for (long i = 0; i < pairs; i++)
            free(malloc(size));
    return 0;
}
