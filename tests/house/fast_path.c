// Hits of malloc, free and free_sized and nothing else, for fast_path.py to count: `fast_path SIZE SIZED CALLS`.
// The functions are called through pointers, so that no linkage code is counted as theirs.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>

static void *(*volatile malloc_)(size_t);
static void (*volatile free_)(void *);
static void (*volatile free_sized_)(void *, size_t);

// One block at a time: after the first few, every call finds its magazine neither empty nor full.
__attribute__((noinline)) static void measured_loop(size_t size, int sized, long calls) {
    for (long i = 0; i < calls; i++) {
        void *block = malloc_(size);
        if (sized)
            free_sized_(block, size);
        else
            free_(block);
    }
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    malloc_ = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    free_ = (void (*)(void *))dlsym(RTLD_DEFAULT, "free");
    free_sized_ = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    CHECK(malloc_ != NULL && free_ != NULL && free_sized_ != NULL);
    measured_loop(strtoul(arguments[1], NULL, 10), atoi(arguments[2]), atol(arguments[3]));
    return 0;
}
