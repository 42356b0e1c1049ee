// Values of controls: each is seen to change when it should, or to be what it must. Prints the names it has looked at.
// Here: of the process, of size classes and of the thread.
// SPDX-License-Identifier: BSD-2-Clause
#include "values.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <time.h>

uint64_t internal_at_first;
static char seen[16384];

void saw(const char *name) {
    strcat(strcat(seen, name), "\n");
}

const char *with(const char *name, unsigned i, unsigned j) {
    static char result[2][128];
    static int turn;
    char *to = result[turn ^= 1], *start = to;
    bool first = true;

    for (; *name != '\0'; name++) {
        if (name[0] == '<') {
            to += sprintf(to, "%u", first ? i : j);
            first = false;
            name++;
        } else
            *to++ = *name;
    }
    *to = '\0';
    return start;
}

uint64_t get(const char *name) {
    uint64_t value = 0;
    size_t size = 8;
    int failure = mallctl(name, &value, &size, NULL, 0);

    if (failure == EINVAL) { // 1 or 4 bytes, and how many is told nowhere: the value is what fits
        for (size = 4; size >= 1 && failure != 0; size -= 3) {
            size_t length = size;
            value = 0;
            failure = mallctl(name, &value, &length, NULL, 0);
            if (size == 1)
                break;
        }
    }
    CHECK_SAY(failure == 0, "%s: %s", name, strerror(failure));
    return value;
}

const char *text(const char *name) {
    return (const char *)(uintptr_t)get(name);
}

void refresh(void) {
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

uint64_t fresh(const char *name) {
    refresh();
    return get(name);
}

unsigned own_arena(void) {
    return (unsigned)get("thread.arena");
}

void pause_ms(long ms) {
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

void rose(const char *name, uint64_t before, uint64_t after) {
    CHECK_SAY(after > before, "%s: %llu, then %llu", name, (unsigned long long)before, (unsigned long long)after);
}

/*
 * The process.
 */

static void process(void) {
    uint64_t epoch = get("epoch");

    saw("version");
    CHECK_EQ(strcmp(text("version"), JEMALLOC_VERSION), 0);
    saw("epoch");
    refresh();
    CHECK_EQ(get("epoch"), epoch + 1);
    saw("background_thread");
    saw("stats.background_thread.num_threads");
    saw("stats.background_thread.num_runs");
    saw("stats.background_thread.run_interval");
    CHECK_EQ(get("background_thread"), 1);
    SET_OK("background_thread", bool, false);
    CHECK_EQ(get("background_thread"), 0);
    for (int i = 0; i < 3000 && fresh("stats.background_thread.num_threads") != 0; i++)
        pause_ms(20);
    CHECK_EQ(fresh("stats.background_thread.num_threads"), 0);
    SET_OK("background_thread", bool, true);
    for (int i = 0; i < 3000 && fresh("stats.background_thread.num_runs") == 0; i++)
        pause_ms(20);
    CHECK_EQ(fresh("stats.background_thread.num_threads"), 1);
    CHECK(get("stats.background_thread.num_runs") > 0 && get("stats.background_thread.run_interval") > 1000000);
    SET_OK("background_thread", bool, false); // what follows is not disturbed by it
    for (int i = 0; i < 3000 && fresh("stats.background_thread.num_threads") != 0; i++)
        pause_ms(20);
    saw("max_background_threads");
    SET_OK("max_background_threads", size_t, 2);
    CHECK_EQ(get("max_background_threads"), 2);
    CHECK_EQ(SET("max_background_threads", size_t, 1000000), EINVAL);
}

static void classes(void) {
    unsigned bins = (unsigned)get("arenas.nbins"), lextents = (unsigned)get("arenas.nlextents");
    size_t last = 0;

    saw("arenas.page");
    CHECK_EQ(get("arenas.page"), (uint64_t)sysconf(_SC_PAGESIZE));
    saw("arenas.quantum");
    CHECK_EQ(get("arenas.quantum"), 16);
    saw("arenas.tcache_max");
    saw("arenas.nhbins");
    CHECK_EQ(get("arenas.tcache_max"), 65536);
    CHECK_EQ(get("arenas.nhbins"), 45);
    saw("arenas.nbins");
    saw("arenas.nlextents");
    saw("arenas.bin.<>.size");
    saw("arenas.bin.<>.nregs");
    saw("arenas.bin.<>.slab_size");
    saw("arenas.bin.<>.nshards");
    for (unsigned i = 0; i < bins; i++) {
        size_t size = get(with("arenas.bin.<>.size", i, 0));
        void *object = malloc(last + 1);

        CHECK_EQ(malloc_usable_size(object), size); // the classes are exactly those of malloc, without a gap
        free(object);
        CHECK(get(with("arenas.bin.<>.nregs", i, 0)) * size <= get(with("arenas.bin.<>.slab_size", i, 0)));
        CHECK_EQ(get(with("arenas.bin.<>.nshards", i, 0)), 1);
        last = size;
    }
    saw("arenas.lextent.<>.size");
    for (unsigned i = 0; i < lextents; i++) {
        size_t size = get(with("arenas.lextent.<>.size", i, 0));

        CHECK(size > last);
        if (size < 64 << 20) {
            void *object = malloc(last + 1);
            CHECK_EQ(malloc_usable_size(object), size);
            free(object);
        }
        last = size;
    }
    CHECK_EQ(last, (size_t)7 << 60);
}

/*
 * The thread.
 */

static void *counting_thread(void *unused) {
    uint64_t *allocated, *freed, before, peak;
    size_t size = sizeof allocated;
    void *volatile object;

    saw("thread.allocated");
    saw("thread.allocatedp");
    saw("thread.deallocated");
    saw("thread.deallocatedp");
    CHECK_EQ(mallctl("thread.allocatedp", &allocated, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("thread.deallocatedp", &freed, &size, NULL, 0), 0);
    for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 3 + 1) {
        before = *allocated;
        object = malloc(bytes);
        CHECK_EQ(*allocated, before + malloc_usable_size(object));
        CHECK_EQ(get("thread.allocated"), *allocated);
        before = *freed;
        bytes = malloc_usable_size(object);
        free(object);
        CHECK_EQ(*freed, before + bytes);
        CHECK_EQ(get("thread.deallocated"), *freed);
    }
    before = *allocated;
    object = calloc(10, 10);
    CHECK_EQ(*allocated, before + 112);
    object = realloc(object, 4000);
    CHECK_EQ(*allocated, before + 112 + malloc_usable_size(object));
    free(object);
    CHECK_EQ(*allocated - *freed, (uint64_t)0 + (get("thread.allocated") - get("thread.deallocated")));

    saw("thread.peak.read");
    saw("thread.peak.reset");
    ACT("thread.peak.reset");
    CHECK_EQ(get("thread.peak.read"), 0);
    free(malloc(100000));
    free(malloc(3000));
    peak = get("thread.peak.read");
    CHECK_EQ(peak, 114688);
    object = realloc(malloc(LARGE), 2 * LARGE); // grows without a copy, and is the new peak
    free(object);
    CHECK_GE(get("thread.peak.read"), 2 * LARGE);
    ACT("thread.peak.reset");
    CHECK_EQ(get("thread.peak.read"), 0);

    saw("thread.tcache.flush");
    saw("thread.idle");
    for (int i = 0; i < 100; i++)
        free(malloc(640));
    ACT("thread.tcache.flush");
    for (int i = 0; i < 100; i++)
        free(malloc(640));
    ACT("thread.idle");
    return unused;
}

// What the background thread's start needs is not counted as this thread's, which caused it.
static void *starting_thread(void *unused) {
    uint64_t *allocated, *freed, before;
    size_t size = sizeof allocated;
    void *volatile object;

    CHECK_EQ(mallctl("thread.allocatedp", &allocated, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("thread.deallocatedp", &freed, &size, NULL, 0), 0);
    object = malloc(4 << 20);
    CHECK_EQ(*allocated, 4 << 20);
    before = fresh("stats.background_thread.num_threads");
    free(object);
    CHECK_EQ(before, 0);
    CHECK_EQ(fresh("stats.background_thread.num_threads"), 1);
    CHECK_EQ(*allocated, 4 << 20);
    CHECK_EQ(*freed, 4 << 20);
    return unused;
}

static void background_start(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, starting_thread, NULL), 0);
    pthread_join(thread, NULL);
}

static void threads(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, counting_thread, NULL), 0);
    pthread_join(thread, NULL);
}

// Of an arena that no other thread uses, who falls idle leaves no dirty pages.
static void idle_in_own_arena(void) {
    unsigned before = own_arena(), arena;
    size_t size = sizeof arena;

    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    SET_OK(with("arena.<>.dirty_decay_ms", arena, 0), ssize_t, -1);
    SET_OK("thread.arena", unsigned, arena);
    void *object = malloc(LARGE), *volatile behind = malloc(LARGE);
    free(memset(object, 1, LARGE));
    CHECK(fresh(with("stats.arenas.<>.pdirty", arena, 0)) > 0);
    ACT("thread.idle");
    CHECK_EQ(fresh(with("stats.arenas.<>.pdirty", arena, 0)), 0);
    free(behind);
    SET_OK("thread.arena", unsigned, before);
    ACT(with("arena.<>.destroy", arena, 0));
}

int main(void) {
    free(malloc(1));
    internal_at_first = get("stats.arenas.4096.internal");
    background_start();
    process();
    classes();
    threads();
    test_small_objects();
    test_mutexes();
    test_retained();
    test_large_objects();
    test_moved_objects();
    test_decay();
    test_others();
    test_caches();
    test_thread_cache_max();
    test_arenas();
    test_sums(); // with an arena among them that is gone
    test_newer();
    test_utilization();
    idle_in_own_arena();
    test_safety();
    test_profiler();
    fputs(seen, stdout);
    return 0;
}
