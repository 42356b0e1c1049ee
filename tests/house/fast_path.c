// Hits of malloc, free, free_sized and realloc of NULL and nothing else, for fast_path.py to count: `fast_path SIZE PAIR CALLS`.
// The functions are called through pointers, so that no linkage code is counted as theirs.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>

enum pair { MALLOC_FREE, MALLOC_FREE_SIZED, REALLOC_FREE };

static void *(*volatile malloc_)(size_t);
static void *(*volatile realloc_)(void *, size_t);
static void (*volatile free_)(void *);
static void (*volatile free_sized_)(void *, size_t);

// One block at a time: after the first few, every call finds its magazine neither empty nor full.
__attribute__((noinline)) static void measured_loop(size_t size, enum pair pair, long calls) {
    for (long i = 0; i < calls; i++) {
        void *block = pair == REALLOC_FREE ? realloc_(NULL, size) : malloc_(size);
        if (pair == MALLOC_FREE_SIZED)
            free_sized_(block, size);
        else
            free_(block);
    }
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    malloc_ = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    realloc_ = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "realloc");
    free_ = (void (*)(void *))dlsym(RTLD_DEFAULT, "free");
    free_sized_ = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    CHECK(malloc_ != NULL && realloc_ != NULL && free_ != NULL && free_sized_ != NULL);
    measured_loop(strtoul(arguments[1], NULL, 10), (enum pair)atoi(arguments[2]), atol(arguments[3]));
    return 0;
}
