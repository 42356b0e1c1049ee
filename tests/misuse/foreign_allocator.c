// A block of the C library's own malloc, as from before a preload, freed here: recognised, reported, never followed.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "misuse.h"

#include <dlfcn.h>

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))(uintptr_t)dlsym(RTLD_NEXT, "__libc_malloc");
    if (libc_malloc == NULL)
        SKIP("this C library has no __libc_malloc");
    size_t size = strtoul(arguments[1], NULL, 10);
    char *block = libc_malloc(size);
    CHECK(block != NULL);
    memset(block, 0x41, size);
    announce("free", block);
    free(hidden(block));
    return unnoticed();
}
