// Tests base/base.h: alignment, no overlap, reuse by size, zeroed pages, pages that the kernel does not unmap, threads at it
// together, and free objects joined when the system has no more.
// SPDX-License-Identifier: BSD-2-Clause
#include "base/base.h"

#include <pthread.h>
#include <sys/resource.h>

#include "os/pages.h"
#include "unit.h"
#include "util/bits.h"

enum { OBJECTS = 600, THREADS = 4, THREAD_ROUNDS = 20000, THREAD_OBJECTS = 64 };

// Fills an object with a pattern of its own; somebody else's write into it is then seen.
static void paint(unsigned char *object, size_t size, unsigned mark) {
    memset(object, (int)(mark * 37 + 11) & 0xff, size);
}

static void check_paint(const unsigned char *object, size_t size, unsigned mark) {
    for (size_t i = 0; i < size; i++)
        CHECK_EQ(object[i], ((mark * 37 + 11) & 0xff));
}

static void check_sizes_and_overlap(void) {
    static unsigned char *objects[OBJECTS];
    static size_t sizes[OBJECTS];
    struct random random = { 5 };

    for (unsigned i = 0; i < OBJECTS; i++) {
        sizes[i] = i < 130 ? i + 1 : 1 + random_below(&random, BASE_LARGEST);
        if (i == OBJECTS - 1)
            sizes[i] = BASE_LARGEST;
        objects[i] = base_alloc(sizes[i]);
        CHECK(objects[i] != NULL);
        CHECK_EQ((uintptr_t)objects[i] % CACHE_LINE, 0);
        paint(objects[i], sizes[i], i);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        check_paint(objects[i], sizes[i], i);
        base_free(objects[i], sizes[i]);
    }
}

// What was freed serves the next request of its size: metadata does not grow in a steady state.
static void check_reuse(void) {
    size_t before;

    for (size_t size = 1; size <= BASE_LARGEST; size += 613) {
        void *object = base_alloc(size);

        base_free(object, size);
        CHECK(base_alloc(round_up(size, CACHE_LINE)) == object);
        base_free(object, round_up(size, CACHE_LINE));
    }
    before = base_bytes();
    for (int round = 0; round < 100000; round++)
        base_free(base_alloc(4096), 4096);
    CHECK_EQ(base_bytes(), before);
}

static void check_pages(void) {
    for (size_t size = 1; size < 300000; size = size * 3 + 1) {
        size_t before = base_bytes();
        unsigned char *pages = base_alloc_pages(size);

        CHECK(pages != NULL && (uintptr_t)pages % os_page_size() == 0);
        CHECK_GE(base_bytes() - before, size);
        for (size_t i = 0; i < size; i++)
            CHECK_EQ(pages[i], 0);
        memset(pages, 0xff, size);
    }
}

static bool refuses;

bool __real_os_pages_unmap(void *address, size_t size);
bool __wrap_os_pages_unmap(void *address, size_t size);
bool __wrap_os_pages_unmap(void *address, size_t size) {
    return !refuses && __real_os_pages_unmap(address, size);
}

// Neither resident nor lost: metadata comes from there.
static void check_refused(void) {
    enum { TABLE_BYTES = 4 << 20 };
    unsigned char *table = base_alloc_table(TABLE_BYTES), *object;
    size_t before = base_bytes();

    CHECK(table != NULL);
    memset(table, 0xff, TABLE_BYTES);
    refuses = true;
    base_free_table(table, TABLE_BYTES);
    refuses = false;
    CHECK_EQ(base_bytes(), before);
    CHECK_EQ(os_pages_resident(table, TABLE_BYTES), 0);
    do
        CHECK((object = base_alloc(BASE_LARGEST)) != NULL);
    while (object < table || object >= table + TABLE_BYTES);
    CHECK_EQ(base_bytes(), before);
    table = base_alloc_table(TABLE_BYTES);
    CHECK_EQ(base_bytes(), before + TABLE_BYTES);
    base_free_table(table, TABLE_BYTES);
    CHECK_EQ(base_bytes(), before);
}

static void *hammer(void *number) {
    unsigned mark = (unsigned)(uintptr_t)number;
    struct random random = { mark + 1 };
    unsigned char *objects[THREAD_OBJECTS] = { NULL };
    size_t sizes[THREAD_OBJECTS] = { 0 };

    for (int round = 0; round < THREAD_ROUNDS; round++) {
        size_t i = random_below(&random, THREAD_OBJECTS);

        if (objects[i] != NULL) {
            check_paint(objects[i], sizes[i], mark);
            base_free(objects[i], sizes[i]);
        }
        sizes[i] = 1 + random_below(&random, 300);
        objects[i] = base_alloc(sizes[i]);
        CHECK(objects[i] != NULL);
        paint(objects[i], sizes[i], mark);
    }
    for (size_t i = 0; i < THREAD_OBJECTS; i++)
        if (objects[i] != NULL)
            base_free(objects[i], sizes[i]);
    return NULL;
}

static void check_threads(void) {
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

enum { SHORT_MOST = 1 << 20 };

// Without memory from the system, what objects of one size left serves another: joined and cut, again and again.
static void check_joined(void) {
    static unsigned char *objects[SHORT_MOST];
    const size_t sizes[] = { CACHE_LINE, BASE_LARGEST, 5 * CACHE_LINE, CACHE_LINE };
    struct rlimit limit, none;
    size_t most = 0;

    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    none = limit;
    none.rlim_cur = 1;
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    for (unsigned round = 0; round < sizeof sizes / sizeof sizes[0]; round++) {
        size_t size = sizes[round], count = 0;

        for (; count < SHORT_MOST && (objects[count] = base_alloc(size)) != NULL; count++)
            paint(objects[count], size, (unsigned)count);
        CHECK(count < SHORT_MOST);
        most = max_size(most, count * size);
        CHECK_SAY(count * size >= most / 10 * 9, "%zu bytes in objects of %zu, %zu before", count * size, size, most);
        for (size_t i = 0; i < count; i++) {
            check_paint(objects[i], size, (unsigned)i);
            base_free(objects[i], size);
        }
    }
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK(most > 0);
}

int main(void) {
    check_sizes_and_overlap();
    check_reuse();
    check_pages();
    check_refused();
    check_threads();
    check_joined();
    return 0;
}
