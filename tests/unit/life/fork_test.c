// A fork while other threads are at work in pages and caches: in the child nobody is any more, so that there is decay, caches are consolidated and reclaimed,
// and a background thread may start.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "../../support/child.h"
#include "cache/slabs.h"
#include "heap/arena.h"
#include "heap/reclaim.h"
#include "magazine/magazine.h"
#include "unit.h"
#include "vmem/resource.h"

static pthread_barrier_t barrier;

static struct pages *magazine_pages(void) {
    return (struct pages *)(uintptr_t)magazines_pages_at();
}

static void *stay(void *unused) {
    free(malloc(100));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

// As if another thread were there just now.
static void mark(struct arena *arena, vmag_cache_t *cache, vmag_vmem_t *ids, bool there) {
    atomic_store(&arena->pages.decaying, there);
    atomic_store(&arena->visitors, there);
    atomic_store(&cache_pages.decaying, there);
    atomic_store(&magazine_pages()->decaying, there);
    atomic_fetch_add(&reclaim_dismissed, there ? 1 : -1);
    atomic_store(&cache->moving, there);
    atomic_store(&cache->reclaimer, there ? cache : NULL);
    atomic_store(&cache->pins, there);
    atomic_store(&cache->carriers, there);
    atomic_store(&cache->sleepers, there);
    atomic_store(&ids->waiters, there);
}

static void check_nobody(const struct arena *arena, const vmag_cache_t *cache, const vmag_vmem_t *ids) {
    CHECK(!atomic_load(&arena->pages.decaying) && atomic_load(&arena->visitors) == 0);
    CHECK(!atomic_load(&cache_pages.decaying) && !atomic_load(&magazine_pages()->decaying));
    CHECK_EQ(atomic_load(&reclaim_dismissed), 0);
    CHECK(!atomic_load(&cache->moving) && atomic_load(&cache->reclaimer) == NULL);
    CHECK(atomic_load(&cache->pins) == 0 && atomic_load(&cache->carriers) == 0 && atomic_load(&cache->sleepers) == 0);
    CHECK_EQ(atomic_load(&ids->waiters), 0);
}

int main(void) {
    vmag_cache_t *cache = vmag_cache_create("forked", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
    vmag_vmem_t *ids = vmag_vmem_create("forked", (void *)1, 100, 1, NULL, NULL, NULL, 0, VMAG_VM_NOSLEEP);
    pthread_t thread;
    pid_t child;

    CHECK(cache != NULL && ids != NULL);
    free(malloc(100));
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, stay, NULL), 0);
    pthread_barrier_wait(&barrier);
    mark(arena_of(0), cache, ids, true);
    CHECK_GE(child = fork(), 0);
    if (child == 0) {
        check_nobody(arena_of(0), cache, ids);
        _exit(0);
    }
    mark(arena_of(0), cache, ids, false);
    expect_child(child);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(ids);
    return 0;
}
