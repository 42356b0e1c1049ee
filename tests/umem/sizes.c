// What UMEM_OPTIONS says of the sizes of umem_alloc: `sizes add|remove|clear|order`, each with its options in umem.cmake.
// SPDX-License-Identifier: BSD-2-Clause
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <umem.h>
#include <vmag/cache.h>

#include "../check.h"
#include "../support/pattern.h"

enum { OBJECTS = 500, THREADS = 3, LARGEST = 140000 };

struct search {
    const char *name;
    vmag_cache_t *found;
};

static void look(void *search_, vmag_cache_t *cache) {
    struct search *search = search_;
    if (strcmp(vmag_cache_name(cache), search->name) == 0)
        search->found = cache;
}

// Objects of the size that the program has from a cache of its own; −1: there is no such cache.
static long in_use(unsigned size) {
    char name[32];
    struct search search = { name, NULL };
    struct vmag_cache_stats stats;

    snprintf(name, sizeof name, "umem_alloc_%u", size);
    vmag_cache_each(look, &search);
    if (search.found == NULL)
        return -1;
    vmag_cache_stats(search.found, &stats, sizeof stats);
    return (long)stats.in_use;
}

// Bytes behind a request that is malloc's.
static size_t room(size_t size) {
    void *buffer = umem_alloc(size, UMEM_DEFAULT);
    size_t usable = malloc_usable_size(buffer);
    umem_free(buffer, size);
    return usable;
}

static void expect_added(size_t least, size_t most, unsigned added) {
    for (size_t size = least; size <= most; size++) {
        void *buffer = umem_alloc(size, UMEM_NOFAIL);
        long before = in_use(added);
        umem_free(buffer, size);
        CHECK(before >= 1);
        CHECK_EQ(in_use(added), before - 1);
    }
}

static void test_add(void) {
    expect_added(65, 72, 72); // malloc's neighbours are 64 and 80
    CHECK_EQ(in_use(72), 0);
    CHECK_EQ(room(64), 64);
    CHECK_EQ(room(73), 80);
    CHECK_EQ(in_use(100), -1); // rounded to a multiple of 8, and made when it is needed
    CHECK_EQ(in_use(104), -1);
    expect_added(97, 104, 104);
    expect_added(1025, 1088, 1088); // beyond the sizes that malloc looks up in a table
    CHECK_EQ(in_use(128), -1);      // malloc has that
    CHECK_EQ(room(128), 128);
    expect_added(98305, 98312, 98312);
    CHECK(room(LARGEST) >= LARGEST);
    void *aligned = umem_alloc(1088, UMEM_NOFAIL);
    CHECK_EQ((uintptr_t)aligned % 64, 0);
    umem_free(aligned, 1088);
}

static void test_remove(void) {
    CHECK_EQ(room(48), 48);
    CHECK_EQ(room(49), 80);
    CHECK_EQ(room(64), 80);
    CHECK_EQ(room(2048), 2560);
    CHECK_EQ(malloc_usable_size(malloc(64)), 64); // malloc keeps its own
}

static void test_clear(void) {
    CHECK(room(1) >= 16384);
    CHECK(room(10000) >= 16384);
    CHECK(room(60000) >= 60000);
}

// size_add=72,size_clear,size_add=256,size_add=4K,size_remove=4K,size_add=512
static void test_order(void) {
    expect_added(1, 256, 256);
    expect_added(257, 512, 512);
    CHECK(room(513) >= 16384);
    CHECK_EQ(in_use(72), -1);
    CHECK_EQ(in_use(4096), -1);
}

// Whatever the table: every size is served, nothing overlaps, zalloc zeroes, and other threads may free.
static void *churn(void *unused) {
    static const size_t sizes[] = { 1, 8, 64, 65, 72, 73, 105, 250, 500, 1000, 1024, 1025, 1088, 4096, 4097, 98312, LARGEST };
    unsigned char *objects[OBJECTS];

    for (size_t i = 0; i < OBJECTS; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
        objects[i] = umem_zalloc(size, UMEM_NOFAIL);
        CHECK(objects[i][0] == 0 && objects[i][size - 1] == 0);
        pattern_fill(objects[i], size, i);
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
        pattern_verify(objects[i], size, i);
        umem_free(objects[i], size);
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];

    CHECK_EQ(count, 2);
    free(malloc(100)); // malloc's front is open before umem_alloc is first called
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
    churn(NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK(umem_alloc(0, UMEM_NOFAIL) == NULL);
    umem_free(NULL, 0);
    switch (arguments[1][0]) {
    case 'a': test_add(); break;
    case 'r': test_remove(); break;
    case 'c': test_clear(); break;
    case 'o': test_order(); break;
    default: CHECK(0);
    }
    return 0;
}
