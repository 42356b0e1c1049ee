// What object caches hold of an arena and nobody uses comes back when the arena has no room: this thread's and the depots', of quantum caches, of caches on the
// arena and on arenas that import from it. Also for who waits. And a source that is small is not used up by slabs that are large.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

#define AT(integer) ((void *)(uintptr_t)(integer))

enum { MOST = 2048, IDS = 1000, QUANTUM = 4096, PAGES = 64, DEPTH = 8, CACHES = 16, HANG_SECONDS = 20 };

static void *objects[MOST];

static vmag_vmem_t *ids(size_t count, size_t quantum, size_t qcache_max) {
    return vmag_vmem_create("ids", AT(quantum), count * quantum, quantum, NULL, NULL, NULL, qcache_max, VMAG_VM_NOSLEEP);
}

static size_t take_all(vmag_cache_t *cache) {
    size_t got = 0;

    while (got < MOST && (objects[got] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL)
        got++;
    return got;
}

static void give_all(vmag_cache_t *cache, size_t count) {
    for (size_t i = 0; i < count; i++)
        vmag_cache_free(cache, objects[i]);
}

static void from_quantum_caches(int flags) {
    vmag_vmem_t *arena = ids(IDS, 1, 8);

    for (int i = 0; i < IDS; i++)
        CHECK((objects[i] = vmag_vmem_alloc(arena, 1, VMAG_VM_NOSLEEP)) != NULL);
    for (int i = 0; i < IDS; i++)
        vmag_vmem_free(arena, objects[i], 1);
    errno = 0;
    void *half = vmag_vmem_alloc(arena, IDS / 2, flags), *rest = vmag_vmem_xalloc(arena, IDS / 2, 0, 0, 0, NULL, NULL, flags);
    CHECK(half != NULL && rest != NULL && errno == 0);
    vmag_vmem_xfree(arena, rest, IDS / 2);
    vmag_vmem_free(arena, half, IDS / 2);
    vmag_vmem_destroy(arena);
}

static void from_a_cache(int flags) {
    vmag_vmem_t *arena = ids(PAGES, QUANTUM, 0);
    vmag_cache_t *cache = vmag_cache_create("pages", QUANTUM, 0, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH);

    CHECK_EQ(take_all(cache), PAGES);
    CHECK(vmag_vmem_alloc(arena, QUANTUM, VMAG_VM_NOSLEEP) == NULL);
    give_all(cache, PAGES);
    void *all = vmag_vmem_alloc(arena, QUANTUM * PAGES, flags);
    CHECK(all != NULL);
    vmag_vmem_free(arena, all, QUANTUM * PAGES);
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(arena);
}

static void from_above(int flags, size_t qcache_max) {
    vmag_vmem_t *below = ids(PAGES, QUANTUM, qcache_max);
    vmag_vmem_t *above = vmag_vmem_create("above", NULL, 0, QUANTUM, vmag_vmem_alloc, vmag_vmem_free, below, 0, VMAG_VM_NOSLEEP);
    vmag_cache_t *cache = vmag_cache_create("above", QUANTUM, 0, NULL, NULL, NULL, NULL, above, VMAG_CACHE_NOTOUCH);
    vmag_cache_t *other = vmag_cache_create("below", QUANTUM, 0, NULL, NULL, NULL, NULL, below, VMAG_CACHE_NOTOUCH);
    size_t got = take_all(cache);

    CHECK_GT(got, PAGES / 2);
    give_all(cache, got);
    got = take_all(other);
    CHECK(got == PAGES || qcache_max != 0);
    give_all(other, got);
    void *all = vmag_vmem_alloc(below, QUANTUM * PAGES, flags);
    CHECK(all != NULL);
    vmag_vmem_free(below, all, QUANTUM * PAGES);
    got = take_all(cache);
    give_all(cache, got);
    for (size_t i = 0; i < PAGES; i++) // one at a time
        CHECK((objects[i] = vmag_vmem_alloc(below, QUANTUM, flags)) != NULL);
    for (size_t i = 0; i < PAGES; i++)
        vmag_vmem_free(below, objects[i], QUANTUM);
    vmag_cache_destroy(other);
    vmag_cache_destroy(cache);
    vmag_vmem_destroy(above);
    vmag_vmem_destroy(below);
}

static void small_sources(void) {
    for (size_t count = 1; count <= 400; count += 13) {
        vmag_vmem_t *arena = ids(count, 1, 0);
        vmag_cache_t *cache = vmag_cache_create("id", 1, 0, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH);
        size_t got = take_all(cache);

        CHECK_GE(got, count - count / 32);
        give_all(cache, got);
        vmag_cache_destroy(cache);
        vmag_vmem_destroy(arena);
    }
}

static void small_memory(void) {
    for (size_t pages = 1; pages < 20; pages++) {
        size_t bytes = pages * QUANTUM;
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        vmag_vmem_t *arena = vmag_vmem_create("memory", memory, bytes, QUANTUM, NULL, NULL, NULL, 0, VMAG_VM_NOSLEEP);
        vmag_cache_t *cache = vmag_cache_create("small", 64, 0, NULL, NULL, NULL, NULL, arena, 0);
        size_t got = take_all(cache);

        CHECK_EQ(got, bytes / 64);
        give_all(cache, got);
        vmag_cache_destroy(cache);
        vmag_vmem_destroy(arena);
        munmap(memory, bytes);
    }
}

static int reclaims;

static void be_asked(void *argument) {
    (void)argument;
    reclaims++;
    errno = ERANGE;
}

// However deep the arenas lie, each cache is asked once for a request; and what comes of it leaves errno alone.
static void asked_once(void) {
    vmag_vmem_t *arenas[DEPTH] = {ids(PAGES, QUANTUM, 0)};
    vmag_cache_t *cache;
    void *half;

    for (int i = 1; i < DEPTH; i++)
        arenas[i] = vmag_vmem_create("deep", NULL, 0, QUANTUM, vmag_vmem_alloc, vmag_vmem_free, arenas[i - 1], 0, VMAG_VM_NOSLEEP);
    cache = vmag_cache_create("asked", QUANTUM, 0, NULL, NULL, be_asked, NULL, arenas[0], VMAG_CACHE_NOTOUCH);
    half = vmag_vmem_alloc(arenas[0], QUANTUM * PAGES / 2, VMAG_VM_NOSLEEP);
    reclaims = 0;
    CHECK(half != NULL && vmag_vmem_alloc(arenas[DEPTH - 1], QUANTUM * PAGES, VMAG_VM_NOSLEEP) == NULL);
    CHECK_EQ(reclaims, 1);
    give_all(cache, take_all(cache));
    errno = 0;
    void *rest = vmag_vmem_alloc(arenas[DEPTH - 1], QUANTUM * PAGES / 2, VMAG_VM_NOSLEEP);
    CHECK(rest != NULL && errno == 0);
    vmag_vmem_free(arenas[DEPTH - 1], rest, QUANTUM * PAGES / 2);
    vmag_vmem_free(arenas[0], half, QUANTUM * PAGES / 2);
    vmag_cache_destroy(cache);
    for (int i = DEPTH; i-- > 0;)
        vmag_vmem_destroy(arenas[i]);
}

static vmag_cache_t *busy;

// Gives something to the arena itself, each time.
static void come_and_go(void *argument) {
    (void)argument;
    reclaims++;
    vmag_cache_free(busy, vmag_cache_alloc(busy, VMAG_NOSLEEP));
}

static void *give_later(void *arena) {
    usleep(300000);
    vmag_vmem_free(arena, AT(QUANTUM), QUANTUM * (PAGES - 1));
    return NULL;
}

// Who waits sleeps, whatever its own looking for room gives and takes.
static void waits_at_rest(void) {
    vmag_vmem_t *arena = ids(PAGES, QUANTUM, 0);
    struct timespec before, after;
    pthread_t thread;

    CHECK(vmag_vmem_xalloc(arena, QUANTUM * (PAGES - 1), 0, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP) == AT(QUANTUM));
    busy = vmag_cache_create("busy", QUANTUM, 0, NULL, NULL, come_and_go, NULL, arena, VMAG_CACHE_NOTOUCH);
    reclaims = 0;
    CHECK_EQ(pthread_create(&thread, NULL, give_later, arena), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    void *much = vmag_vmem_alloc(arena, QUANTUM * PAGES / 2, VMAG_VM_SLEEP);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    CHECK_LE((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec, 100000000);
    CHECK_LE(reclaims, 100);
    pthread_join(thread, NULL);
    vmag_vmem_free(arena, much, QUANTUM * PAGES / 2);
    vmag_cache_destroy(busy);
    vmag_vmem_destroy(arena);
}

// One object each of many caches.
static void large_objects(void) {
    for (size_t size = 4100; size < 15000; size += 1750) {
        vmag_vmem_t *arena = ids(PAGES, QUANTUM, 0);
        vmag_cache_t *caches[CACHES];
        size_t got = 0, fit = PAGES / ((size + QUANTUM - 1) / QUANTUM);

        for (int i = 0; i < CACHES; i++) {
            caches[i] = vmag_cache_create("large", size, 0, NULL, NULL, NULL, NULL, arena, VMAG_CACHE_NOTOUCH);
            objects[i] = vmag_cache_alloc(caches[i], VMAG_NOSLEEP);
            got += objects[i] != NULL;
        }
        CHECK_GE(got, fit < CACHES ? fit : CACHES);
        for (int i = 0; i < CACHES; i++) {
            vmag_cache_free(caches[i], objects[i]);
            vmag_cache_destroy(caches[i]);
        }
        vmag_vmem_destroy(arena);
    }
}

// Nor does what has no place leave anything behind in other caches, or make their operations slow for long.
static void others_keep_theirs(void) {
    vmag_vmem_t *arena = ids(PAGES, QUANTUM, 0);
    vmag_cache_t *other = vmag_cache_create("other", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    struct vmag_cache_stats before, after;

    vmag_cache_free(other, vmag_cache_alloc(other, VMAG_NOSLEEP));
    vmag_cache_stats(other, &before, sizeof before);
    for (int i = 0; i < IDS; i++)
        CHECK(vmag_vmem_alloc(arena, QUANTUM * (PAGES + 1), VMAG_VM_NOSLEEP) == NULL);
    vmag_cache_stats(other, &after, sizeof after);
    CHECK_EQ(after.cached, before.cached);
    vmag_cache_destroy(other);
    vmag_vmem_destroy(arena);
}

int main(void) {
    alarm(HANG_SECONDS);
    for (int flags = 0; flags < 2; flags++) {
        from_quantum_caches(flags == 0 ? VMAG_VM_NOSLEEP : VMAG_VM_SLEEP);
        from_a_cache(flags == 0 ? VMAG_VM_NOSLEEP : VMAG_VM_SLEEP);
        for (int many = 0; many < 2; many++)
            from_above(flags == 0 ? VMAG_VM_NOSLEEP : VMAG_VM_SLEEP, many * 4 * QUANTUM);
    }
    small_sources();
    small_memory();
    others_keep_theirs();
    asked_once();
    waits_at_rest();
    large_objects();
    return 0;
}
