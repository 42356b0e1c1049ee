// What options do to objects: `effects NAME`, run with the option set in MALLOC_CONF or MALLOC_OPTIONS (tests/conf/conf.cmake).
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

static const size_t sizes[] = { 1, 8, 100, 1000, 5000, 14336, 20000, 65536, 100000, 3000000 };

static void check_bytes(const volatile unsigned char *object, size_t from, size_t to, unsigned char byte) {
    for (size_t i = from; i < to; i++)
        CHECK_SAY(object[i] == byte, "byte %zu is %x, not %x", i, object[i], byte);
}

// Objects of all kinds of sizes, each used, freed and allocated again.
static void allocated_bytes(unsigned char byte) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int times = 0; times < 3; times++) {
            unsigned char *object = malloc(sizes[i]);
            size_t usable = malloc_usable_size(object);

            check_bytes(object, 0, usable, byte);
            memset(object, 0x11, usable);
            object = realloc(object, usable + 1);
            check_bytes(object, 0, usable, 0x11);
            check_bytes(object, usable, malloc_usable_size(object), byte);
            memset(object, 0x11, malloc_usable_size(object));
            free(object);
            object = aligned_alloc(256, sizes[i]);
            check_bytes(object, 0, malloc_usable_size(object), byte);
            free(object);
            object = calloc(1, sizes[i]);
            check_bytes(object, 0, sizes[i], 0);
            free(object);
        }
}

static void freed_bytes(void) {
    for (size_t i = 0; i < 8; i++) {
        unsigned char *volatile object = malloc(sizes[i]);

        memset(object, 0x11, sizes[i]);
        free(object);
        check_bytes(object, 0, sizes[i], 0x5a);
    }
}

// Without magazines an object goes straight to its slab, and the next allocation takes the lowest address.
static void no_magazines(size_t size, int expected) {
    char *objects[3], *next;

    for (int i = 0; i < 3; i++)
        objects[i] = malloc(size);
    free(objects[0]);
    free(objects[2]);
    next = malloc(size);
    CHECK_EQ(next == objects[0], expected);
    free(next);
    free(objects[1]);
}

static void aborts(void (*misbehave)(void)) {
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    misbehave();
    CHECK(!"reached");
}

static void too_much(void) {
    volatile size_t size = SIZE_MAX / 4;
    void *volatile object = malloc(size);
    (void)object;
}

void *_Znwm(size_t);

static void new_too_much(void) {
    volatile size_t size = SIZE_MAX / 4;
    void *volatile object = _Znwm(size);
    (void)object;
}

static void realloc_zero(void) {
    void *volatile object = realloc(malloc(10), 0);
    (void)object;
}

// stats_interval: a report each time that the threads together have allocated so many bytes.
enum { INTERVAL = 1 << 20, INTERVALS = 40, COUNTED = 100, AT_ONCE = 500, THREADS = 2 };

static _Atomic int reports;

static void on_report(void *unused, const char *text) {
    (void)unused;
    free(malloc(3 * INTERVAL)); // neither prints within it, nor counts
    if (strncmp(text, "{\"jemalloc\":", 12) == 0)
        reports++;
}

static void *allocates(void *unused) {
    void *objects[AT_ONCE]; // more than magazines hold

    (void)unused;
    for (int i = 0; i < INTERVALS * INTERVAL / COUNTED / THREADS / AT_ONCE; i++) {
        for (int j = 0; j < AT_ONCE; j++)
            objects[j] = malloc(COUNTED);
        for (int j = 0; j < AT_ONCE; j++)
            free(objects[j]);
    }
    return NULL;
}

static void interval(void) {
    pthread_t threads[THREADS];
    int before;

    malloc_message = on_report;
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, allocates, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_SAY(reports >= INTERVALS - THREADS && reports <= INTERVALS * 5 / 4, "%d reports", reports); // objects are of 112 bytes
    before = reports;
    for (int i = 0; i < 100; i++)
        free(malloc(COUNTED));
    CHECK_SAY(reports <= before + 1, "%d reports, then %d", before, reports);
}

// Whatever they come from: fresh pages are zero before they are junk.
static void zeroes_are_not_junk(void) {
    const int flags[] = {MALLOCX_ZERO, MALLOCX_ZERO | MALLOCX_ALIGN(65536), MALLOCX_ZERO | MALLOCX_TCACHE_NONE, MALLOCX_ZERO | MALLOCX_ARENA(0)};
    for (size_t size = 100; size < (size_t)4 << 20; size *= 3)
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
            unsigned char *object = mallocx(size, flags[i]);
            CHECK(object != NULL);
            for (size_t at = 0; at < size; at++)
                CHECK_SAY(object[at] == 0, "%zu bytes, flags %x: byte %zu is %x", size, (unsigned)flags[i], at, object[at]);
            dallocx(object, flags[i] & ~MALLOCX_ZERO);
        }
}

static void mallocx_too_much(void) {
    volatile size_t size = (size_t)1 << 60;
    (void)mallocx(size, MALLOCX_TCACHE_NONE);
}

static void rallocx_too_much(void) {
    volatile size_t size = SIZE_MAX / 2 + 2;
    (void)rallocx(malloc(100), size, MALLOCX_ZERO);
}

extern void *_Znam(size_t);
extern void *_ZnwmRKSt9nothrow_t(size_t, const void *);

// A thread may have its magazines where others have none.
static void cache_of_a_thread(void) {
    bool has = true, wanted = true;
    size_t size = sizeof has;

    CHECK(mallctl("thread.tcache.enabled", &has, &size, NULL, 0) == 0 && !has);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), EFAULT);
    CHECK(mallctl("thread.tcache.enabled", &has, &size, &wanted, sizeof wanted) == 0 && !has);
    CHECK(mallctl("thread.tcache.enabled", &has, &size, NULL, 0) == 0 && has);
    no_magazines(16, 0);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    wanted = false;
    CHECK(mallctl("thread.tcache.enabled", &has, &size, &wanted, sizeof wanted) == 0 && has);
    no_magazines(16, 1);
}

// What was read at the start is told, and nothing else.
static void source_told(const char *expected) {
    const char *told = NULL;
    size_t size = sizeof told;

    char *there = getenv("MALLOC_CONF");

    memset(there, 'x', strlen(there));
    CHECK_EQ(setenv("MALLOC_CONF", "prof:true", 1), 0);
    CHECK(mallctl("opt.malloc_conf.env_var", &told, &size, NULL, 0) == 0 && strcmp(told, expected) == 0);
    CHECK_EQ(unsetenv("MALLOC_CONF"), 0);
    CHECK(mallctl("opt.malloc_conf.env_var", &told, &size, NULL, 0) == 0 && strcmp(told, expected) == 0);
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";

    if (strcmp(name, "junk") == 0) {
        allocated_bytes(0xa5);
        freed_bytes();
        zeroes_are_not_junk();
    } else if (strcmp(name, "zero") == 0)
        allocated_bytes(0);
    else if (strcmp(name, "xmalloc") == 0)
        aborts(too_much);
    else if (strcmp(name, "xmalloc_mallocx") == 0)
        aborts(mallocx_too_much);
    else if (strcmp(name, "xmalloc_rallocx") == 0)
        aborts(rallocx_too_much);
    else if (strcmp(name, "infallible_new") == 0)
        aborts(new_too_much);
    else if (strcmp(name, "interval") == 0)
        interval();
    else if (strcmp(name, "leak") == 0) {
        void *volatile object = malloc(100);
        (void)object;
    } else if (strcmp(name, "zero_realloc_abort") == 0)
        aborts(realloc_zero);
    else if (strcmp(name, "zero_realloc_alloc") == 0) {
        void *object = realloc(malloc(100), 0);
        CHECK(object != NULL);
        CHECK_EQ(malloc_usable_size(object), 8);
        free(object);
    } else if (strcmp(name, "zero_size_null") == 0) {
        volatile size_t none = 0;
        CHECK(malloc(none) == NULL);
        free(malloc(1));
        for (int times = 0; times < 3; times++) {
            void *objects[] = {_Znam(none), _ZnwmRKSt9nothrow_t(none, ""), mallocx(none, 0), mallocx(none, MALLOCX_ZERO), mallocx(none, MALLOCX_TCACHE_NONE)};

            for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
                CHECK_SAY(objects[i] != NULL, "the %zu.", i);
                free(objects[i]);
            }
        }
    } else if (strcmp(name, "tcache_max") == 0) {
        no_magazines(256, 0);
        no_magazines(5000, 1);
    } else if (strcmp(name, "tcache") == 0) {
        no_magazines(16, 1);
        no_magazines(5000, 1);
    } else if (strcmp(name, "tcache_of_a_thread") == 0)
        cache_of_a_thread();
    else if (strcmp(name, "source") == 0)
        source_told("narenas:2");
    else
        CHECK(!"no such case");
    return 0;
}
