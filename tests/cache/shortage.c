// Shortage: constructors that fail at the n-th call, sources that have nothing left, reclaim callbacks, waiting, and reserves
// that must not fail half-way.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "unit.h"

static long constructions, failing, destructions;

static int construct(void *object, void *argument, int flags) {
    (void)argument, (void)flags;
    if (++constructions == failing)
        return 1;
    *(void **)object = malloc(10); // a constructor may allocate, of its own cache too (see below)
    return 0;
}

static void destruct(void *object, void *argument) {
    (void)argument;
    free(*(void **)object);
    destructions++;
}

static struct vmag_cache_stats stats_of(vmag_cache_t *cache) {
    struct vmag_cache_stats stats;

    vmag_cache_stats(cache, &stats, sizeof stats);
    return stats;
}

enum { COUNT = 60 };

// The n-th construction fails: one allocation fails with it (after one more try), and nothing is lost.
static void nth_constructor(int flags, int batch) {
    void *objects[COUNT];

    for (failing = 1; failing <= COUNT; failing++) {
        vmag_cache_t *cache = vmag_cache_create("fails", 64, 0, construct, destruct, NULL, NULL, NULL, flags);
        size_t got = 0;

        constructions = destructions = 0;
        if (batch)
            got = vmag_cache_alloc_batch(cache, objects, COUNT, VMAG_NOSLEEP);
        else
            while (got < COUNT && (objects[got] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL)
                got++;
        CHECK_EQ(got, COUNT); // the second try succeeds
        CHECK_EQ(stats_of(cache).constructor_failures, 1);
        CHECK_EQ(stats_of(cache).in_use, got);
        vmag_cache_free_batch(cache, objects, got);
        vmag_cache_destroy(cache);
        CHECK_EQ(constructions - 1, destructions);
    }
}

static int never(void *object, void *argument, int flags) {
    (void)object, (void)argument, (void)flags;
    return -1;
}

static void constructor_never(void) {
    vmag_cache_t *cache = vmag_cache_create("never", 64, 0, never, destruct, NULL, NULL, NULL, 0);
    void *objects[3];

    destructions = 0;
    errno = 0;
    CHECK(vmag_cache_alloc(cache, VMAG_NOSLEEP) == NULL && errno == ENOMEM);
    CHECK_EQ(vmag_cache_alloc_batch(cache, objects, 3, VMAG_NOSLEEP), 0);
    errno = 0;
    CHECK(vmag_cache_reserve(cache, 3, VMAG_NOSLEEP) == NULL && errno == ENOMEM);
    CHECK_GT(stats_of(cache).alloc_failures, 0);
    CHECK_EQ(stats_of(cache).in_use, 0);
    vmag_cache_destroy(cache);
    CHECK_EQ(destructions, 0);
}

// A source of one slab: 64 ids.
static vmag_vmem_t *few;
static void *kept[64];
static size_t kept_count, reclaims;
static vmag_cache_t *hoard;

static void give_some(void *argument) {
    (void)argument;
    reclaims++;
    for (int i = 0; i < 5 && kept_count > 0; i++)
        vmag_cache_free(hoard, kept[--kept_count]);
}

static void *free_later(void *object) {
    usleep(30000);
    vmag_cache_free(hoard, object);
    return NULL;
}

static void exhaustion(void) {
    size_t slab;
    pthread_t thread;
    void *object;

    few = vmag_vmem_create("few", (void *)1000, 64, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    hoard = vmag_cache_create("hoard", 1, 0, NULL, NULL, give_some, NULL, few, VMAG_CACHE_NOTOUCH);
    slab = stats_of(hoard).slab_objects;
    CHECK_EQ(64 % slab, 0);
    for (size_t i = 0; i < 64; i++) {
        kept[kept_count] = vmag_cache_alloc(hoard, VMAG_NOSLEEP);
        CHECK((uintptr_t)kept[kept_count] >= 1000 && (uintptr_t)kept[kept_count] < 1064);
        kept_count++;
    }
    CHECK_EQ(reclaims, 0);
    object = vmag_cache_alloc(hoard, VMAG_NOSLEEP); // the callback gives some back
    CHECK(object != NULL && reclaims == 1 && kept_count == 59);
    while (reclaims < 2) {
        void *more = vmag_cache_alloc(hoard, VMAG_NOSLEEP);

        CHECK(more != NULL);
        kept[kept_count++] = more;
    }
    CHECK_GE(reclaims, 2);
    vmag_cache_free(hoard, object);
    while (kept_count > 0)
        vmag_cache_free(hoard, kept[--kept_count]);

    // SLEEP waits for what another thread frees.
    void *all[64];
    for (size_t i = 0; i < 64; i++)
        all[i] = vmag_cache_alloc(hoard, VMAG_SLEEP);
    errno = 0;
    CHECK(vmag_cache_alloc(hoard, VMAG_NOSLEEP) == NULL && errno == ENOMEM);
    pthread_create(&thread, NULL, free_later, all[63]);
    all[63] = vmag_cache_alloc(hoard, VMAG_SLEEP);
    CHECK(all[63] != NULL);
    pthread_join(thread, NULL);
    CHECK(vmag_cache_reserve(hoard, 1, VMAG_NOSLEEP) == NULL);
    vmag_cache_free_batch(hoard, all, 64);

    vmag_reserve_t *reserve = vmag_cache_reserve(hoard, 40, VMAG_NOSLEEP);
    CHECK(reserve != NULL);
    for (size_t i = 0; i < 24; i++)
        CHECK((kept[i] = vmag_cache_alloc(hoard, VMAG_NOSLEEP)) != NULL);
    CHECK(vmag_cache_alloc(hoard, VMAG_NOSLEEP) == NULL); // what is reserved is out of reach
    for (size_t i = 0; i < 40; i++)
        CHECK((kept[24 + i] = vmag_reserve_alloc(reserve)) != NULL);
    CHECK(vmag_reserve_alloc(reserve) == NULL);
    vmag_reserve_release(reserve);
    vmag_cache_free_batch(hoard, kept, 64);
    vmag_cache_destroy(hoard);
    CHECK_EQ(vmag_vmem_size(few, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(few);
}

// Two threads want more than there is: who cannot have all keeps nothing while it sleeps, so first one is served, then the other.
static _Atomic int halves;

static int construct_by_turns(void *object, void *argument, int flags) {
    (void)object, (void)argument, (void)flags;
    if (halves++ < 64)
        usleep(1000);
    return 0;
}

static void *reserve_most(void *cache) {
    vmag_reserve_t *reserve = vmag_cache_reserve(cache, 40, VMAG_SLEEP);

    CHECK_EQ(vmag_reserve_left(reserve), 40);
    vmag_reserve_release(reserve);
    return NULL;
}

static void reserves_take_turns(int flags) {
    vmag_vmem_t *ids = vmag_vmem_create("ids", (void *)1000, 64, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    vmag_cache_t *cache = vmag_cache_create("turns", 1, 0, construct_by_turns, NULL, NULL, NULL, ids, VMAG_CACHE_NOTOUCH | flags);
    pthread_t thread;

    halves = 0;
    CHECK_EQ(pthread_create(&thread, NULL, reserve_most, cache), 0);
    reserve_most(cache);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(ids);
}

// A reap of all caches asks all of them; a callback that allocates from its own cache does not recurse.
static vmag_cache_t *greedy;

static void allocate_again(void *argument) {
    ++*(int *)argument;
    vmag_cache_free(greedy, vmag_cache_alloc(greedy, VMAG_NOSLEEP));
    vmag_cache_reap(greedy);
}

static void reap_all(void) {
    int asked = 0;

    greedy = vmag_cache_create("greedy", 32, 0, NULL, NULL, allocate_again, &asked, NULL, 0);
    vmag_caches_reap();
    CHECK_EQ(asked, 1);
    vmag_cache_reap(greedy);
    CHECK_EQ(asked, 2);
    vmag_cache_destroy(greedy);
}

// A constructor that allocates from the cache whose object it constructs.
static vmag_cache_t *chain;
static int depth;

static int construct_chain(void *object, void *argument, int flags) {
    (void)argument;
    *(void **)object = NULL;
    if (depth++ < 3)
        *(void **)object = vmag_cache_alloc(chain, flags);
    return 0;
}

static void destruct_chain(void *object, void *argument) {
    (void)argument;
    if (*(void **)object != NULL)
        vmag_cache_free(chain, *(void **)object);
}

static void recursion(void) {
    chain = vmag_cache_create("chain", 32, 0, construct_chain, destruct_chain, NULL, NULL, NULL, 0);
    vmag_cache_free(chain, vmag_cache_alloc(chain, VMAG_SLEEP));
    CHECK_EQ(depth, 4);
    vmag_cache_destroy(chain);
}

// Of a shortage that has passed nothing is left: a reserve gets its magazines.
static void shortage_passes(void) {
    enum { OBJECTS = 40000, BLOCKS = 400000, MANY = 10000 };
    vmag_cache_t *cache = vmag_cache_create("after", 64, 0, NULL, NULL, NULL, NULL, NULL, VMAG_CACHE_NOMAGAZINE);
    void **objects = calloc(OBJECTS, sizeof *objects), **blocks = calloc(BLOCKS, sizeof *blocks);
    vmag_reserve_t **reserves = calloc(MANY, sizeof *reserves), *after;
    size_t reserved = 0, block = 0;
    struct rlimit before, none;

    for (size_t i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL);
    for (size_t i = 0; i < OBJECTS; i++)
        if (i % 8 != 0)
            vmag_cache_free(cache, objects[i]);
    CHECK_EQ(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 1;
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    for (size_t size = 1 << 22; size >= 16; size /= 2)
        while (block < BLOCKS && (blocks[block] = malloc(size)) != NULL)
            block++;
    while (reserved < MANY && (reserves[reserved] = vmag_cache_reserve(cache, 20, VMAG_NOSLEEP)) != NULL)
        reserved++;
    CHECK_LT(reserved, MANY);
    CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
    while (block > 0)
        free(blocks[--block]);
    after = vmag_cache_reserve(cache, 20, VMAG_NOSLEEP);
    CHECK(after != NULL);
    vmag_reserve_release(after);
    while (reserved > 0)
        vmag_reserve_release(reserves[--reserved]);
    for (size_t i = 0; i < OBJECTS; i += 8)
        vmag_cache_free(cache, objects[i]);
    vmag_cache_destroy(cache);
    free(objects), free(blocks), free(reserves);
}

int main(void) {
    nth_constructor(0, 0);
    nth_constructor(VMAG_CACHE_NOMAGAZINE, 0);
    nth_constructor(0, 1);
    constructor_never();
    exhaustion();
    reserves_take_turns(0);
    reserves_take_turns(VMAG_CACHE_NOMAGAZINE);
    reap_all();
    recursion();
    shortage_passes();
    return 0;
}
