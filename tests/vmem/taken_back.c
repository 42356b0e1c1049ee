// What object caches hold of an arena and nobody uses comes back when the arena has no room: this thread's and the depots', of quantum caches, of caches on the
// arena and on arenas that import from it. Also for who waits. And a source that is small is not used up by slabs that are large.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

#define AT(integer) ((void *)(uintptr_t)(integer))

enum { MOST = 2048, IDS = 1000, QUANTUM = 4096, PAGES = 64, HANG_SECONDS = 20 };

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

static void from_above(int flags) {
    vmag_vmem_t *below = ids(PAGES, QUANTUM, 0);
    vmag_vmem_t *above = vmag_vmem_create("above", NULL, 0, QUANTUM, vmag_vmem_alloc, vmag_vmem_free, below, 0, VMAG_VM_NOSLEEP);
    vmag_cache_t *cache = vmag_cache_create("above", QUANTUM, 0, NULL, NULL, NULL, NULL, above, VMAG_CACHE_NOTOUCH);
    vmag_cache_t *other = vmag_cache_create("below", QUANTUM, 0, NULL, NULL, NULL, NULL, below, VMAG_CACHE_NOTOUCH);
    size_t got = take_all(cache);

    CHECK_GT(got, PAGES / 2);
    give_all(cache, got);
    CHECK_EQ(take_all(other), PAGES);
    give_all(other, PAGES);
    void *all = vmag_vmem_alloc(below, QUANTUM * PAGES, flags);
    CHECK(all != NULL);
    vmag_vmem_free(below, all, QUANTUM * PAGES);
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
        from_above(flags == 0 ? VMAG_VM_NOSLEEP : VMAG_VM_SLEEP);
    }
    small_sources();
    small_memory();
    others_keep_theirs();
    return 0;
}
