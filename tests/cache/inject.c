// Exercises caches while memory system calls are refused (nomem/inject.c): NOSLEEP fails cleanly, freeing never fails, and
// afterwards all works and nothing is lost.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "../nomem/window.h"
#include "../support/balanced.h"

enum { OBJECTS = 400 };

static void *objects[OBJECTS];

static size_t use(vmag_cache_t *cache) {
    size_t got = 0;

    for (size_t i = 0; i < OBJECTS; i++) {
        errno = 0;
        objects[got] = vmag_cache_alloc(cache, VMAG_NOSLEEP);
        CHECK(objects[got] != NULL || errno == ENOMEM);
        got += objects[got] != NULL;
    }
    for (size_t i = 0; i < got; i++)
        vmag_cache_free(cache, objects[i]);
    vmag_reserve_t *reserve = vmag_cache_reserve(cache, 100, VMAG_NOSLEEP);
    for (size_t i = 0; reserve != NULL && i < 100; i++)
        vmag_cache_free(cache, vmag_reserve_alloc(reserve));
    if (reserve != NULL)
        vmag_reserve_release(reserve);
    vmag_cache_reap(cache);
    return got;
}

static vmag_cache_t *create(size_t size, vmag_vmem_t *source, int flags) {
    vmag_cache_t *cache = vmag_cache_create("inject", size, 0, flags & VMAG_CACHE_NOTOUCH ? NULL : construct,
                                            flags & VMAG_CACHE_NOTOUCH ? NULL : destruct, NULL, NULL, source, flags);

    CHECK(cache != NULL || errno == EAGAIN);
    return cache;
}

int main(void) {
    static const size_t sizes[3] = { 64, 9000, 4096 };
    vmag_vmem_t *arena = vmag_vmem_create("source", (void *)4096, (size_t)1 << 40, 4096, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    vmag_cache_t *caches[3];

    prctl(WINDOW_OPEN, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        caches[i] = create(sizes[i], i == 2 ? arena : NULL, i == 2 ? VMAG_CACHE_NOTOUCH : 0);
    for (int i = 0; i < 3; i++)
        if (caches[i] != NULL)
            use(caches[i]);
    prctl(WINDOW_CLOSE, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++) {
        if (caches[i] == NULL)
            caches[i] = create(sizes[i], i == 2 ? arena : NULL, i == 2 ? VMAG_CACHE_NOTOUCH : 0);
        CHECK_EQ(use(caches[i]), OBJECTS);
        vmag_cache_destroy(caches[i]);
    }
    CHECK_EQ(balance, 0);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_ALLOC), 0);
    return 0;
}
