// What the tests of libumem's ports look at, in our words: every kind of cache that flags make, caches that come and go, many at a time.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdint.h>
#include <umem.h>

#include "../check.h"
#include "../support/pattern.h"

enum { OBJECTS = 60, CACHES = 40, GENERATIONS = 200 };

static void use(umem_cache_t *cache, size_t size, size_t align, int flags) {
    void *objects[OBJECTS];

    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = umem_cache_alloc(cache, i % 2 ? UMEM_NOFAIL : UMEM_DEFAULT);
        CHECK(objects[i] != NULL && (uintptr_t)objects[i] % align == 0);
        if (!(flags & UMC_NOTOUCH))
            pattern_fill(objects[i], size, (uintptr_t)objects[i]);
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (!(flags & UMC_NOTOUCH))
            pattern_verify(objects[i], size, (uintptr_t)objects[i]);
        umem_cache_free(cache, objects[i]);
    }
}

static void test_flags(void) {
    static const int flags[] = { 0, UMC_NODEBUG, UMC_NOMAGAZINE, UMC_NOHASH, UMC_NOTOUCH, UMC_NODEBUG | UMC_NOMAGAZINE,
                                 UMC_NODEBUG | UMC_NOHASH, UMC_NOTOUCH | UMC_NOMAGAZINE, UMC_NOTOUCH | UMC_NODEBUG };

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        for (size_t align = 8; align <= 4096; align *= 8)
            for (size_t size = 1; size < 100000; size = size * 5 + 3) {
                if ((flags[i] & UMC_NOHASH) && size > 4000)
                    continue;
                umem_cache_t *cache = umem_cache_create((char *)"kind", size, align, NULL, NULL, NULL, NULL, NULL, flags[i]);
                CHECK(cache != NULL);
                use(cache, size, align, flags[i]);
                umem_cache_destroy(cache);
            }
    errno = 0;
    CHECK(umem_cache_create((char *)"none", 64, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOHASH | UMC_NOTOUCH) == NULL);
    CHECK_EQ(errno, EINVAL);
}

static int living;

static int construct(void *object, void *size, int flags) {
    (void)flags;
    pattern_fill(object, *(size_t *)size, (uintptr_t)object);
    living++;
    return 0;
}

static void destruct(void *object, void *size) {
    pattern_verify(object, *(size_t *)size, (uintptr_t)object);
    living--;
}

// Caches of many sizes are made, used and destroyed by turns: each object is destructed as it was constructed.
static void test_generations(void) {
    static umem_cache_t *caches[CACHES];
    static size_t sizes[CACHES];

    for (int generation = 0; generation < GENERATIONS; generation++) {
        int at = generation % CACHES;
        void *objects[OBJECTS];

        if (caches[at] != NULL)
            umem_cache_destroy(caches[at]);
        sizes[at] = 8 + (size_t)(generation * 97 % 3000);
        caches[at] = umem_cache_create((char *)"generation", sizes[at], 0, construct, destruct, NULL, &sizes[at], NULL, 0);
        CHECK(caches[at] != NULL);
        for (int i = 0; i < OBJECTS; i++)
            objects[i] = umem_cache_alloc(caches[(at + i) % CACHES] != NULL ? caches[(at + i) % CACHES] : caches[at], UMEM_NOFAIL);
        for (int i = 0; i < OBJECTS; i++)
            umem_cache_free(caches[(at + i) % CACHES] != NULL ? caches[(at + i) % CACHES] : caches[at], objects[i]);
        if (generation % 20 == 0)
            umem_reap();
    }
    for (int at = 0; at < CACHES; at++)
        umem_cache_destroy(caches[at]);
    CHECK_EQ(living, 0);
}

// errno is the program's: freeing and succeeding leave it alone.
static void test_errno(void) {
    umem_cache_t *cache = umem_cache_create((char *)"errno", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
    void *object, *buffer;

    errno = E2BIG;
    object = umem_cache_alloc(cache, UMEM_DEFAULT);
    buffer = umem_alloc(300000, UMEM_DEFAULT);
    umem_cache_free(cache, object);
    umem_free(buffer, 300000);
    umem_free_align(umem_alloc_align(100, 1024, UMEM_DEFAULT), 100);
    CHECK_EQ(errno, E2BIG);
    umem_cache_destroy(cache);
}

int main(void) {
    test_flags();
    test_generations();
    test_errno();
    return 0;
}
