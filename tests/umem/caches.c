// umem_cache_*: constructors and destructors in pairs and in the right state, errors, reclaim, integers without memory.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <stdint.h>
#include <umem.h>
#include <vmag/cache.h>

#include "../check.h"

enum { OBJECTS = 500, MAGIC = 0x5eed };

struct object {
    unsigned magic, uses;
    char rest[92];
};

static int constructed, destructed, reclaims, argument;

static int construct(void *memory, void *given, int flags) {
    struct object *object = memory;
    CHECK(given == &argument && flags == UMEM_DEFAULT);
    object->magic = MAGIC;
    object->uses = 0;
    constructed++;
    return 0;
}

static void destruct(void *memory, void *given) {
    struct object *object = memory;
    CHECK(given == &argument && object->magic == MAGIC);
    object->magic = 0;
    destructed++;
}

static void reclaim(void *given) {
    CHECK(given == &argument);
    reclaims++;
}

static int debugging(void) {
    return getenv("UMEM_DEBUG") != NULL;
}

static void test_states(int flags) {
    static struct object *objects[OBJECTS];
    umem_cache_t *cache = umem_cache_create((char *)"object", sizeof(struct object), 0, construct, destruct, reclaim, &argument,
                                            NULL, flags);
    CHECK(cache != NULL);
    constructed = destructed = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
            CHECK(objects[i] != NULL && objects[i]->magic == MAGIC);
            objects[i]->uses++;
        }
        for (int i = 0; i < OBJECTS; i++) umem_cache_free(cache, objects[i]);
    }
    CHECK(constructed >= OBJECTS);
    // With guards they run each time, which a destructor that checks the state can tell.
    if (debugging() && !(flags & UMC_NODEBUG)) CHECK(constructed == 5 * OBJECTS && destructed == constructed);
    umem_cache_destroy(cache);
    CHECK_EQ(constructed, destructed);
}

static int refuse(void *memory, void *given, int flags) {
    (void)memory;
    (void)flags;
    return *(int *)given;
}

// A constructor that refuses: no object, nothing lost, and the next ones are as good as ever.
static void test_refusal(void) {
    static char memory[1 << 19] __attribute__((aligned(4096)));
    int refuses = 1;
    void *objects[30];
    vmem_t *arena = vmem_create("memory", memory, sizeof memory, 512, NULL, NULL, NULL, 0, VM_NOSLEEP);
    umem_cache_t *cache = umem_cache_create((char *)"moody", 64, 64, refuse, NULL, NULL, &refuses, arena, UMC_NOMAGAZINE);
    for (int i = 0; i < 30; i++) {
        refuses = i % 2 == 0;
        objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
        CHECK((objects[i] == NULL) == refuses);
    }
    for (int i = 1; i < 30; i += 2) umem_cache_free(cache, objects[i]);
    umem_cache_destroy(cache);
    CHECK_EQ(vmem_size(arena, VMEM_ALLOC), 0); // a buffer that is still out would keep its slab
    vmem_destroy(arena);
}

static void expect(int error, char *name, size_t size, size_t align, int flags) {
    errno = 0;
    CHECK(umem_cache_create(name, size, align, NULL, NULL, NULL, NULL, NULL, flags) == NULL);
    CHECK_EQ(errno, error);
}

static void test_errors(void) {
    char name[] = "name";
    expect(EINVAL, NULL, 8, 0, 0);
    expect(EINVAL, name, 0, 0, 0);
    expect(EINVAL, name, 8, 24, 0);
    expect(EINVAL, name, 8, 3, 0);
    expect(EINVAL, name, 8, (size_t)1 << 30, 0);
    expect(EINVAL, name, 8, 2 * (size_t)sysconf(_SC_PAGESIZE), 0); // above the quantum of the heap
    expect(EINVAL, name, 8, 0, UMC_NOHASH | UMC_NOTOUCH);
    expect(EINVAL, name, 1 << 20, 0, UMC_NOHASH);
    expect(ENOMEM, name, SIZE_MAX - 100, 0, 0);
    expect(ENOMEM, name, SIZE_MAX / 2, 0, 0);
}

static size_t metadata(void) {
    uint64_t epoch = 1;
    size_t bytes, size = sizeof bytes;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.metadata", &bytes, &size, NULL, 0), 0);
    return bytes;
}

// A cache that cannot be made leaves nothing behind.
static void test_nothing_left(void) {
    size_t before = metadata();
    for (int i = 0; i < 100000; i++) CHECK(umem_cache_create((char *)"crooked", 8, 24, NULL, NULL, NULL, NULL, NULL, 0) == NULL);
    CHECK_LE(metadata(), before + (1 << 20));
}

static void test_alignment(void) {
    for (size_t align = 8; align <= 4096; align *= 2) {
        umem_cache_t *cache = umem_cache_create((char *)"aligned, with a name that is longer than libumem keeps", align / 2 + 3, align,
                                                NULL, NULL, NULL, NULL, NULL, 0);
        void *objects[40];
        for (int i = 0; i < 40; i++) {
            objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
            CHECK(objects[i] != NULL && (uintptr_t)objects[i] % align == 0);
        }
        for (int i = 0; i < 40; i++) umem_cache_free(cache, objects[i]);
        umem_cache_destroy(cache);
    }
}

// Integers of an arena: each once, none touched, for that would crash.
static void test_integers(void) {
    static char seen[1000];
    vmem_t *ids = vmem_create("ids", (void *)1, 1000, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
    umem_cache_t *cache = umem_cache_create((char *)"id", 1, 1, NULL, NULL, NULL, NULL, ids, UMC_NOTOUCH);
    int got = 0;
    void *id;
    CHECK(cache != NULL);
    while ((id = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL) {
        CHECK((uintptr_t)id >= 1 && (uintptr_t)id <= 1000 && !seen[(uintptr_t)id - 1]);
        seen[(uintptr_t)id - 1] = 1;
        got++;
    }
    CHECK(got > 900);
    for (uintptr_t i = 0; i < 1000; i++)
        if (seen[i]) umem_cache_free(cache, (void *)(i + 1));
    umem_cache_destroy(cache);
    CHECK_EQ(vmem_size(ids, VMEM_ALLOC), 0);
    vmem_destroy(ids);
}

// Two caches of the same integers: each takes back its own.
static void test_same_integers(void) {
    vmem_t *ids[2];
    umem_cache_t *caches[2];
    void *id[2];
    for (int i = 0; i < 2; i++) {
        ids[i] = vmem_create("same ids", (void *)1000, 64, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
        caches[i] = umem_cache_create((char *)"same id", 1, 1, NULL, NULL, NULL, NULL, ids[i], UMC_NOTOUCH);
        id[i] = umem_cache_alloc(caches[i], UMEM_DEFAULT);
    }
    CHECK(id[0] != NULL && id[0] == id[1]);
    umem_cache_free(caches[0], id[0]);
    umem_cache_free(caches[1], id[1]);
    for (int i = 0; i < 2; i++) {
        umem_cache_destroy(caches[i]);
        vmem_destroy(ids[i]);
    }
}

// Memory of an arena: all objects lie in it, also those that would be behind a firewall; NOHASH goes by its quantum.
static void test_own_memory(void) {
    static char memory[1 << 19] __attribute__((aligned(4096)));
    vmem_t *arena = vmem_create("memory", memory, sizeof memory, 512, NULL, NULL, NULL, 0, VM_NOSLEEP);
    umem_cache_t *cache = umem_cache_create((char *)"own", 16384, 0, NULL, NULL, NULL, NULL, arena, 0);
    char *object = umem_cache_alloc(cache, UMEM_DEFAULT);
    CHECK(object >= memory && object <= memory + sizeof memory - 16384);
    umem_cache_free(cache, object);
    umem_cache_destroy(cache);
    CHECK(umem_cache_create((char *)"own", 480, 0, NULL, NULL, NULL, NULL, arena, UMC_NOHASH) == NULL && errno == EINVAL);
    CHECK((cache = umem_cache_create((char *)"own", 456, 0, NULL, NULL, NULL, NULL, arena, UMC_NOHASH)) != NULL);
    umem_cache_destroy(cache);
    vmem_destroy(arena);
}

// Without an alignment of its own an untouched object is aligned as any, not to the source's quantum.
static void test_untouched_memory(void) {
    umem_cache_t *cache = umem_cache_create((char *)"untouched", 60, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOTOUCH);
    char *first = umem_cache_alloc(cache, UMEM_NOFAIL), *second = umem_cache_alloc(cache, UMEM_NOFAIL);
    CHECK((uintptr_t)first % 16 == 0 && (uintptr_t)second % 16 == 0);
    CHECK(labs(second - first) < 4096);
    memset(first, 1, 60);
    umem_cache_free(cache, first);
    umem_cache_free(cache, second);
    umem_cache_destroy(cache);
}

static void test_reap(void) {
    static char memory[1 << 19] __attribute__((aligned(4096)));
    vmem_t *arena = vmem_create("memory", memory, sizeof memory, 512, NULL, NULL, NULL, 0, VM_NOSLEEP);
    umem_cache_t *own = umem_cache_create((char *)"own", 100, 0, NULL, NULL, NULL, NULL, arena, 0);
    umem_cache_free(own, umem_cache_alloc(own, UMEM_DEFAULT));
    umem_cache_t *cache = umem_cache_create((char *)"reclaimed", 100, 0, NULL, NULL, reclaim, &argument, NULL, 0);
    umem_cache_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
    reclaims = 0;
    umem_reap();
    CHECK(reclaims == 1);
    CHECK_EQ(vmem_size(arena, VMEM_ALLOC), 0); // nor does anything that is freed, and held by guards, keep its slab
    umem_cache_destroy(own);
    vmem_destroy(arena);
    umem_reap(); // again within the interval: nothing
    CHECK(reclaims == 1);
    umem_cache_destroy(cache);
    cache = umem_cache_create((char *)"not empty", 100, 0, NULL, NULL, reclaim, &argument, NULL, 0);
    CHECK(umem_cache_alloc(cache, UMEM_DEFAULT) != NULL);
    umem_cache_destroy(cache);
    reclaims = 0;
    vmag_caches_reap();
    CHECK_EQ(reclaims, 0);
}

int main(void) {
    test_states(0);
    test_states(UMC_NOMAGAZINE);
    test_states(UMC_NODEBUG);
    test_refusal();
    test_errors();
    test_nothing_left();
    test_alignment();
    test_integers();
    test_same_integers();
    test_own_memory();
    test_untouched_memory();
    test_reap();
    return 0;
}
