// What an observer asks for is obeyed by a program that uses nothing but object caches or arenas, too.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/request.h"

#include "unit.h"
#include "vmag/cache.h"
#include "vmag/vmem.h"

enum { OBJECTS = 1000, ROUNDS_MOST = 100 };

static void *objects[OBJECTS];

static void ask(void) {
    request_word.what = VMAG_ASK_PROFILE_OFF;
    request_word.number++;
}

static bool is_answered(void) {
    return request_word.answered == request_word.number;
}

static void by_caches(void) {
    vmag_cache_t *cache = vmag_cache_create("asked", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    int rounds = 0;

    for (ask(); !is_answered() && rounds < ROUNDS_MOST; rounds++) {
        for (size_t i = 0; i < OBJECTS; i++)
            objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP);
        for (size_t i = 0; i < OBJECTS; i++)
            vmag_cache_free(cache, objects[i]);
    }
    CHECK(is_answered());
    vmag_cache_destroy(cache);
}

static void by_arenas(size_t qcache_max) {
    vmag_vmem_t *arena = vmag_vmem_create("asked", (void *)1, 1 << 20, 1, NULL, NULL, NULL, qcache_max, VMAG_VM_SLEEP);

    ask();
    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = vmag_vmem_alloc(arena, 1, VMAG_VM_NOSLEEP);
    CHECK(is_answered());
    for (size_t i = 0; i < OBJECTS; i++)
        vmag_vmem_free(arena, objects[i], 1);
    vmag_vmem_destroy(arena);
}

int main(void) {
    by_caches();
    by_arenas(0);
    by_arenas(16);
    return 0;
}
