// Who waits for an object gets one that another thread frees, although that thread does nothing more: it does not stay in its magazine.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "../check.h"

enum { POOL = 64, SIZE = 16, OBJECTS = POOL / SIZE, PATIENCE_S = 20, ASLEEP_US = 500000 };

static vmag_cache_t *cache;
static atomic_bool asked;

// Called by who finds none, before it sleeps.
static void reclaim(void *unused) {
    (void)unused;
    asked = true;
}

static void *wait_for_one(void *unused) {
    (void)unused;
    return vmag_cache_alloc(cache, VMAG_SLEEP);
}

static void free_by_one(void **objects) {
    for (int i = 0; i < OBJECTS; i++)
        vmag_cache_free(cache, objects[i]);
}

static void free_as_batch(void **objects) {
    vmag_cache_free_batch(cache, objects, OBJECTS);
}

static void let_wait(void (*free_all)(void **objects)) {
    void *objects[OBJECTS], *got;
    pthread_t waiter;

    asked = false;
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL);
    CHECK_EQ(pthread_create(&waiter, NULL, wait_for_one, NULL), 0);
    while (!asked)
        usleep(1000);
    usleep(ASLEEP_US);
    free_all(objects);
    alarm(PATIENCE_S);
    CHECK_EQ(pthread_join(waiter, &got), 0);
    alarm(0);
    vmag_cache_free(cache, got);
}

int main(void) {
    vmag_vmem_t *pool = vmag_vmem_create("pool", (void *)POOL, POOL, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);

    cache = vmag_cache_create("pooled", SIZE, 0, NULL, NULL, reclaim, NULL, pool, VMAG_CACHE_NOTOUCH);
    let_wait(free_by_one);
    let_wait(free_as_batch);
    let_wait(free_by_one);
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(pool);
    return 0;
}
