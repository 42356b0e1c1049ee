// fork while other threads are at work in caches: parent and child allocate, free, destroy and fork again; the child does not
// complain of objects that vanished threads had in their magazines.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <vmag/cache.h>

#include "../support/child.h"
#include "unit.h"

enum { FORKS = 150, WORKERS = 2, HELD = 64 };

static vmag_cache_t *cache, *other;
static _Atomic int running = 1;

static int construct(void *memory, void *argument, int flags) {
    (void)flags;
    *(void **)memory = argument;
    return 0;
}

static void destruct(void *memory, void *argument) {
    CHECK(*(void **)memory == argument);
    *(void **)memory = NULL;
}

static void churn(uint64_t seed, int steps) {
    struct random random = { seed | 1 };
    void *held[HELD] = { NULL };

    for (int i = 0; i < steps; i++) {
        size_t slot = random_below(&random, HELD);

        if (held[slot] != NULL)
            vmag_cache_free(slot % 2 ? cache : other, held[slot]);
        held[slot] = vmag_cache_alloc(slot % 2 ? cache : other, VMAG_NOSLEEP);
        CHECK(held[slot] != NULL && (slot % 2 == 0 || *(void **)held[slot] == &cache));
        if (i % 64 == 0)
            vmag_cache_reap(slot % 2 ? cache : other);
    }
    for (size_t slot = 0; slot < HELD; slot++)
        if (held[slot] != NULL)
            vmag_cache_free(slot % 2 ? cache : other, held[slot]);
}

static void *work(void *seed) {
    while (running)
        churn((uintptr_t)seed, 500);
    return NULL;
}

static void in_child(int depth);

static void fork_again(int depth) {
    pid_t grandchild = fork();

    if (grandchild == 0)
        in_child(depth);
    expect_child(grandchild);
}

static void in_child(int depth) {
    vmag_cache_t *fresh = vmag_cache_create("fresh", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
    struct vmag_cache_stats stats;

    churn(77, 2000);
    vmag_cache_free(fresh, vmag_cache_alloc(fresh, VMAG_SLEEP));
    vmag_caches_reap();
    vmag_cache_stats(cache, &stats, sizeof stats);
    if (depth > 0)
        fork_again(depth - 1);
    vmag_cache_destroy(fresh);
    vmag_cache_destroy(cache);
    vmag_cache_destroy(other);
    _exit(0);
}

int main(void) {
    pthread_t workers[WORKERS];

    cache = vmag_cache_create("constructed", 200, 0, construct, destruct, NULL, &cache, NULL, 0);
    other = vmag_cache_create("plain", 48, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK_EQ(pthread_create(&workers[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0)
            in_child(i % 3 == 0);
        churn((uint64_t)i, 200);
        expect_child(child);
    }
    running = 0;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    vmag_cache_destroy(cache);
    vmag_cache_destroy(other);
    return 0;
}
