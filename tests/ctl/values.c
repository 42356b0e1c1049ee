// Values of controls: each is seen to change when it should, or to be what it must. Prints the names it has looked at.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

static char seen[16384];

static void saw(const char *name) {
    strcat(strcat(seen, name), "\n");
}

// A name with its indices; the name as it is listed has "<>".
static const char *with(const char *name, unsigned i, unsigned j) {
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

static uint64_t get(const char *name) {
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

static const char *text(const char *name) {
    return (const char *)(uintptr_t)get(name);
}

static void refresh(void) {
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

static uint64_t fresh(const char *name) {
    refresh();
    return get(name);
}

#define SET(name, type, value) mallctl(name, NULL, NULL, &(type){ value }, sizeof(type))
#define SET_OK(name, type, value) CHECK_SAY(SET(name, type, value) == 0, "%s", name)
#define ACT(name) CHECK_SAY(mallctl(name, NULL, NULL, NULL, 0) == 0, "%s", name)

static unsigned own_arena(void) {
    return (unsigned)get("thread.arena");
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void rose(const char *name, uint64_t before, uint64_t after) {
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

/*
 * Statistics of the arena of this thread.
 */

static void order(void) {
    static const char *const in_pages[] = { "stats.active", "stats.resident", "stats.mapped", "stats.arenas.4096.resident" };

    CHECK(fresh("stats.allocated") <= get("stats.active"));
    CHECK(get("stats.active") <= get("stats.resident"));
    for (unsigned i = 0; i < sizeof in_pages / sizeof in_pages[0]; i++)
        CHECK_SAY(get(in_pages[i]) % get("arenas.page") == 0, "%s", in_pages[i]);
}

enum { SMALL = 640, SMALL_BIN = 17, SMALL_COUNT = 8000, LARGE = 3 << 20, LARGE_EXTENT = 30 };

static const char *const small_rise[] = {
    "stats.allocated", "stats.active", "stats.resident", "stats.mapped", "stats.arenas.<>.pactive", "stats.arenas.<>.mapped",
    "stats.arenas.<>.resident", "stats.arenas.<>.small.allocated", "stats.arenas.<>.small.nmalloc", "stats.arenas.<>.small.nrequests",
    "stats.arenas.<>.small.nfills", "stats.arenas.<>.bins.<>.nmalloc", "stats.arenas.<>.bins.<>.nrequests",
    "stats.arenas.<>.bins.<>.curregs", "stats.arenas.<>.bins.<>.nfills", "stats.arenas.<>.bins.<>.nslabs",
    "stats.arenas.<>.bins.<>.nreslabs", "stats.arenas.<>.bins.<>.curslabs",
};

static const char *const small_rise_freed[] = {
    "stats.arenas.<>.small.ndalloc", "stats.arenas.<>.small.nflushes", "stats.arenas.<>.bins.<>.ndalloc",
    "stats.arenas.<>.bins.<>.nflushes", "stats.arenas.<>.tcache_bytes",
};

static const char *const large_rise[] = {
    "stats.arenas.<>.large.allocated", "stats.arenas.<>.large.nmalloc", "stats.arenas.<>.large.nrequests",
    "stats.arenas.<>.large.nfills", "stats.arenas.<>.lextents.<>.nmalloc", "stats.arenas.<>.lextents.<>.nrequests",
    "stats.arenas.<>.lextents.<>.curlextents",
};

static const char *const large_rise_freed[] = { "stats.arenas.<>.large.ndalloc", "stats.arenas.<>.large.nflushes",
                                                "stats.arenas.<>.lextents.<>.ndalloc", "stats.arenas.<>.pdirty" };

static const char *const purge_rise[] = { "stats.arenas.<>.dirty_npurge", "stats.arenas.<>.dirty_nmadvise",
                                          "stats.arenas.<>.dirty_purged" };

#define COUNT(list) (sizeof list / sizeof list[0])

static void read_list(const char *const *names, size_t count, unsigned j, uint64_t *values) {
    refresh();
    for (size_t i = 0; i < count; i++)
        values[i] = get(with(names[i], own_arena(), j));
}

static void list_rose(const char *const *names, size_t count, unsigned j, const uint64_t *before) {
    uint64_t after[32];

    read_list(names, count, j, after);
    for (size_t i = 0; i < count; i++) {
        rose(names[i], before[i], after[i]);
        saw(names[i]);
    }
}

static void small_objects(void) {
    static void *objects[SMALL_COUNT];
    uint64_t before[32], freed[32], curregs, curslabs;
    unsigned arena = own_arena();

    CHECK_EQ(get(with("arenas.bin.<>.size", SMALL_BIN, 0)), SMALL);
    ACT("thread.tcache.flush");
    ACT("arena.4096.purge");
    read_list(small_rise, COUNT(small_rise), SMALL_BIN, before);
    for (int i = 0; i < SMALL_COUNT; i++)
        objects[i] = memset(malloc(SMALL), 1, SMALL);
    list_rose(small_rise, COUNT(small_rise), SMALL_BIN, before);
    order();
    rose("stats.allocated by what was allocated", before[0] + SMALL_COUNT * SMALL - 1, get("stats.allocated"));
    CHECK(get("stats.allocated") < before[0] + SMALL_COUNT * SMALL + 65536);
    curregs = get(with("stats.arenas.<>.bins.<>.curregs", arena, SMALL_BIN));
    curslabs = get(with("stats.arenas.<>.bins.<>.curslabs", arena, SMALL_BIN));
    CHECK(curregs >= SMALL_COUNT && curslabs * get(with("arenas.bin.<>.nregs", SMALL_BIN, 0)) >= curregs);
    saw("stats.arenas.<>.bins.<>.nonfull_slabs");
    for (int i = 0; i < SMALL_COUNT; i += 2)
        free(objects[i]);
    ACT("thread.tcache.flush");
    ACT("arena.4096.purge");
    CHECK(fresh(with("stats.arenas.<>.bins.<>.nonfull_slabs", arena, SMALL_BIN)) > curslabs / 2);
    read_list(small_rise_freed, COUNT(small_rise_freed), SMALL_BIN, freed);
    for (int i = 1; i < SMALL_COUNT; i += 2)
        free(objects[i]);
    ACT("arena.4096.decay");
    for (int i = 0; i < 3000; i++)
        free(malloc(i % 600));
    refresh();
    list_rose(small_rise_freed + 4, 1, SMALL_BIN, freed + 4);
    ACT("thread.tcache.flush");
    ACT("arena.4096.purge");
    list_rose(small_rise_freed, 4, SMALL_BIN, freed);
    CHECK(fresh(with("stats.arenas.<>.bins.<>.curregs", arena, SMALL_BIN)) < curregs - SMALL_COUNT + 200);
    order();
}

/*
 * Mutexes: of slabs that four threads want at once.
 */

enum { AT_ONCE = 4, LOCKS_A_ROUND = 20000, PATIENCE = 300 };

// In turn: a busy machine keeps threads that begin together on one processor, and there nobody finds a lock taken by one that runs.
static void take_a_processor(void) {
    static _Atomic unsigned turn;
    cpu_set_t all, own;
    int number = -1;

    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (unsigned i = turn++ % (unsigned)CPU_COUNT(&all) + 1; i > 0; i -= CPU_ISSET(number, &all) != 0)
        number++;
    CPU_ZERO(&own);
    CPU_SET(number, &own);
    sched_setaffinity(0, sizeof own, &own);
}

static void *taking_locks(void *arena) {
    int flags = MALLOCX_ARENA(*(unsigned *)arena) | MALLOCX_TCACHE_NONE;

    take_a_processor();
    for (int i = 0; i < LOCKS_A_ROUND; i++)
        dallocx(mallocx(SMALL, flags), MALLOCX_TCACHE_NONE);
    return NULL;
}

static void contend(unsigned arena) {
    pthread_t threads[AT_ONCE];

    for (int i = 0; i < AT_ONCE; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, taking_locks, &arena), 0);
    for (int i = 0; i < AT_ONCE; i++)
        pthread_join(threads[i], NULL);
}

static void mutexes(void) {
    static const char *const names[] = { "num_ops", "num_wait", "num_spin_acq", "total_wait_time", "max_wait_time", "max_num_thds" };
    unsigned arena = own_arena();
    uint64_t ops = fresh("stats.mutexes.ctl.num_ops");
    time_t end = time(NULL) + PATIENCE;
    char name[96];

    rose("stats.mutexes.ctl.num_ops", ops, fresh("stats.mutexes.ctl.num_ops"));
    for (size_t i = 0; i < COUNT(names); i++) {
        sprintf(name, "stats.arenas.%u.bins.%u.mutex.%s", arena, SMALL_BIN, names[i]);
        while (fresh(name) == 0 && time(NULL) < end)
            contend(arena);
        rose(name, 0, get(name));
    }
    sprintf(name, "stats.arenas.%u.bins.%u.mutex.max_wait_time", arena, SMALL_BIN);
    ops = get(name);
    sprintf(name, "stats.arenas.%u.bins.%u.mutex.total_wait_time", arena, SMALL_BIN);
    CHECK(ops <= get(name));
    sprintf(name, "stats.arenas.%u.bins.%u.mutex.num_ops", arena, SMALL_BIN);
    CHECK(get(name) >= 2 * AT_ONCE * LOCKS_A_ROUND);
    CHECK(get(with("stats.arenas.<>.mutexes.extents_dirty.num_ops", arena, 0)) > 0);
    ACT("stats.mutexes.reset");
    refresh();
    for (size_t i = 0; i < COUNT(names); i++) {
        sprintf(name, "stats.arenas.%u.bins.%u.mutex.%s", arena, SMALL_BIN, names[i]);
        CHECK_SAY(get(name) < 16, "%s", name);
    }
}

/*
 * Address space that is kept.
 */

enum { KEPT = 512 << 10, KEPT_COUNT = 12 };

// What lies between objects in use is given back, its address space is kept.
static void retained(void) {
    char *objects[KEPT_COUNT];
    const char *arenas = with("stats.arenas.<>.retained", own_arena(), 0);
    uint64_t all, own;

    for (int i = 0; i < KEPT_COUNT; i++)
        objects[i] = memset(malloc(KEPT), 1, KEPT);
    all = fresh("stats.retained");
    own = get(arenas);
    for (int i = 1; i < KEPT_COUNT; i += 2)
        free(objects[i]);
    ACT("arena.4096.purge");
    rose("stats.retained", all + KEPT - 1, fresh("stats.retained"));
    rose("stats.arenas.<>.retained", own + KEPT - 1, get(arenas));
    CHECK(get("stats.resident") <= get("stats.mapped"));
    for (int i = 0; i < KEPT_COUNT; i += 2)
        free(objects[i]);
    saw("stats.retained");
    saw("stats.arenas.<>.retained");
}

static void large_objects(void) {
    uint64_t before[32];
    unsigned arena = own_arena();
    char *object;

    CHECK_EQ(get(with("arenas.lextent.<>.size", LARGE_EXTENT, 0)), LARGE);
    read_list(large_rise, COUNT(large_rise), LARGE_EXTENT, before);
    object = memset(malloc(LARGE), 1, LARGE);
    list_rose(large_rise, COUNT(large_rise), LARGE_EXTENT, before);
    order();
    read_list(large_rise_freed, COUNT(large_rise_freed), LARGE_EXTENT, before);
    free(object);
    list_rose(large_rise_freed, COUNT(large_rise_freed), LARGE_EXTENT, before);
    CHECK_EQ(get(with("stats.arenas.<>.lextents.<>.curlextents", arena, LARGE_EXTENT)), 0);
    order();
    read_list(purge_rise, COUNT(purge_rise), 0, before);
    ACT(with("arena.<>.purge", arena, 0));
    saw("arena.<>.purge");
    list_rose(purge_rise, COUNT(purge_rise), 0, before);
    CHECK_EQ(get(with("stats.arenas.<>.pdirty", arena, 0)), 0);
}

static void decay(void) {
    unsigned arena = own_arena();

    saw("arena.<>.dirty_decay_ms");
    saw("arena.<>.muzzy_decay_ms");
    saw("stats.arenas.<>.dirty_decay_ms");
    saw("stats.arenas.<>.muzzy_decay_ms");
    saw("arenas.dirty_decay_ms");
    saw("arenas.muzzy_decay_ms");
    saw("arena.<>.decay");
    CHECK_EQ(SET(with("arena.<>.dirty_decay_ms", arena, 0), ssize_t, -2), EFAULT);
    CHECK_EQ(SET("arenas.muzzy_decay_ms", ssize_t, -2), EFAULT);
    SET_OK(with("arena.<>.dirty_decay_ms", arena, 0), ssize_t, -1);
    SET_OK(with("arena.<>.muzzy_decay_ms", arena, 0), ssize_t, 7);
    CHECK_EQ((int64_t)get(with("arena.<>.dirty_decay_ms", arena, 0)), -1);
    CHECK_EQ((int64_t)fresh(with("stats.arenas.<>.dirty_decay_ms", arena, 0)), -1);
    CHECK_EQ(get(with("stats.arenas.<>.muzzy_decay_ms", arena, 0)), 7);
    free(memset(malloc(LARGE), 1, LARGE));
    ACT(with("arena.<>.decay", arena, 0));
    CHECK(fresh(with("stats.arenas.<>.pdirty", arena, 0)) >= LARGE / 65536);
    SET_OK(with("arena.<>.dirty_decay_ms", arena, 0), ssize_t, 0);
    ACT(with("arena.<>.decay", arena, 0));
    free(memset(malloc(LARGE), 1, LARGE));
    CHECK_EQ(fresh(with("stats.arenas.<>.pdirty", arena, 0)), 0); // at once
    SET_OK(with("arena.<>.dirty_decay_ms", arena, 0), ssize_t, 50);
    free(memset(malloc(LARGE), 1, LARGE));
    for (int i = 0; i < 20; i++) {
        pause_ms(10);
        ACT(with("arena.<>.decay", arena, 0));
    }
    CHECK(fresh(with("stats.arenas.<>.pdirty", arena, 0)) < LARGE / 4096 / 2);
    SET_OK("arenas.dirty_decay_ms", ssize_t, 1234);
    SET_OK("arenas.muzzy_decay_ms", ssize_t, 5);
    CHECK_EQ(get("arenas.dirty_decay_ms"), 1234);
    CHECK_EQ(get("arenas.muzzy_decay_ms"), 5);
}

static void *sleeper(void *barrier) {
    free(malloc(1));
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static uint64_t internal_at_first; // before there were many magazines

static void others(void) {
    pthread_barrier_t barrier;
    pthread_t thread;
    uint64_t threads_before = fresh("stats.arenas.4096.nthreads"), before, metadata;
    unsigned arena = own_arena();
    void *volatile object;

    saw("stats.arenas.<>.nthreads");
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, sleeper, &barrier), 0);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(fresh("stats.arenas.4096.nthreads"), threads_before + 1);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    CHECK_EQ(fresh("stats.arenas.4096.nthreads"), threads_before);
    saw("stats.arenas.<>.uptime");
    before = get(with("stats.arenas.<>.uptime", arena, 0));
    pause_ms(30);
    rose("uptime", before + 20000000, fresh(with("stats.arenas.<>.uptime", arena, 0)));
    saw("stats.metadata");
    saw("stats.arenas.<>.base");
    saw("stats.arenas.<>.internal");
    metadata = fresh("stats.metadata");
    before = get("stats.arenas.4096.base");
    CHECK_EQ(metadata, before + get("stats.arenas.4096.internal"));
    static void *objects[20000];
    for (int i = 0; i < 20000; i++)
        objects[i] = malloc(14336);
    rose("metadata", metadata, fresh("stats.metadata"));
    rose("base", before, get("stats.arenas.4096.base"));
    for (int i = 0; i < 20000; i++)
        free(objects[i]);
    rose("internal", internal_at_first, fresh("stats.arenas.4096.internal"));
    saw("stats.zero_reallocs");
    before = fresh("stats.zero_reallocs");
    object = realloc(malloc(10), 0);
    CHECK_EQ(fresh("stats.zero_reallocs"), before + 1);
    saw("arena.<>.initialized");
    CHECK_EQ(get("arena.4096.initialized"), 1);
    CHECK_EQ(get(with("arena.<>.initialized", arena, 0)), 1);
    saw("arena.<>.dss");
    saw("stats.arenas.<>.dss");
    CHECK_EQ(strcmp(text(with("arena.<>.dss", arena, 0)), "disabled"), 0);
    CHECK_EQ(SET(with("arena.<>.dss", arena, 0), const char *, "primary"), EFAULT);
    SET_OK(with("arena.<>.dss", arena, 0), const char *, "disabled");
    saw("arena.<>.oversize_threshold");
    SET_OK(with("arena.<>.oversize_threshold", arena, 0), size_t, 12345678);
    CHECK_EQ(get(with("arena.<>.oversize_threshold", arena, 0)), 12345678);
    saw("arena.<>.retain_grow_limit");
    CHECK_EQ(SET(with("arena.<>.retain_grow_limit", arena, 0), size_t, 1), EFAULT);
    SET_OK(with("arena.<>.retain_grow_limit", arena, 0), size_t, (size_t)3 << 20 | 5);
    CHECK_EQ(get(with("arena.<>.retain_grow_limit", arena, 0)), (size_t)3 << 20);
    (void)object;
}

/*
 * What the program makes: arenas, caches.
 */

static unsigned create(const char *name) {
    unsigned id;
    size_t size = sizeof id;

    CHECK_SAY(mallctl(name, &id, &size, NULL, 0) == 0, "%s", name);
    return id;
}

static unsigned lookup(void *address) {
    unsigned id;
    size_t size = sizeof id;
    int failure = mallctl("arenas.lookup", &id, &size, &address, sizeof address);

    return failure == 0 ? id : (unsigned)-failure;
}

static void caches(void) {
    unsigned one = create("tcache.create"), two = create("tcache.create");
    unsigned arena = own_arena();
    void *object;

    saw("tcache.create");
    saw("tcache.flush");
    saw("tcache.destroy");
    CHECK(one != two);
    CHECK_EQ(mallctl("tcache.create", NULL, NULL, NULL, 0), EINVAL);
    for (int i = 0; i < 100; i++)
        dallocx(mallocx(640, MALLOCX_TCACHE(one)), MALLOCX_TCACHE(one));
    SET_OK("tcache.flush", unsigned, one);
    SET_OK("tcache.destroy", unsigned, one);
    CHECK_EQ(SET("tcache.flush", unsigned, one), EFAULT);
    CHECK_EQ(create("tcache.create"), one); // the last freed first
    SET_OK("tcache.destroy", unsigned, one);
    SET_OK("tcache.destroy", unsigned, two);
    saw("thread.tcache.enabled");
    CHECK_EQ(get("thread.tcache.enabled"), 1);
    SET_OK("thread.tcache.enabled", bool, false);
    CHECK_EQ(get("thread.tcache.enabled"), 0);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), EFAULT);
    object = malloc(640);
    saw("arenas.lookup");
    CHECK_EQ(lookup(object), arena);
    CHECK_EQ(lookup(&object), (unsigned)-EINVAL);
    free(object);
    SET_OK("thread.tcache.enabled", bool, true);
    CHECK_EQ(get("thread.tcache.enabled"), 1);
}

static extent_hooks_t *plain_hooks;
static unsigned chunks_asked;

static void *counting_alloc(extent_hooks_t *hooks, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    (void)hooks;
    chunks_asked++;
    return plain_hooks->alloc(plain_hooks, address, size, align, zero, commit, arena);
}

static void arenas(void) {
    static extent_hooks_t hooks, *own = &hooks;
    unsigned before = (unsigned)get("arenas.narenas"), id, first = own_arena(), again;
    size_t size = sizeof plain_hooks, lengths = sizeof id;
    void *objects[64];

    saw("arenas.narenas");
    saw("arenas.create");
    CHECK_EQ(mallctl("arenas.create", NULL, NULL, NULL, 0), EINVAL);
    id = create("arenas.create");
    CHECK_EQ(get("arenas.narenas"), before + 1);
    CHECK_EQ(id, before);
    CHECK_EQ(mallctl(with("arena.<>.purge", before + 2, 0), NULL, NULL, NULL, 0), ENOENT);
    CHECK_EQ(mallctl(with("arena.<>.purge", before + 1, 0), NULL, NULL, NULL, 0), 0); // that number means all
    saw("arena.<>.extent_hooks");
    CHECK_EQ(mallctl(with("arena.<>.extent_hooks", id, 0), &plain_hooks, &size, NULL, 0), 0);
    hooks = *plain_hooks;
    hooks.alloc = counting_alloc;
    CHECK_EQ(mallctl(with("arena.<>.extent_hooks", id, 0), NULL, NULL, &own, sizeof own), 0);
    for (int i = 0; i < 64; i++)
        objects[i] = mallocx(i % 2 ? 640 : 100000, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);
    CHECK(chunks_asked > 0);
    CHECK_EQ(lookup(objects[1]), id);
    CHECK_EQ(fresh(with("stats.arenas.<>.bins.<>.curregs", id, SMALL_BIN)), 32);
    CHECK(get(with("stats.arenas.<>.large.allocated", id, 0)) >= 32 * 100000);
    saw("arena.<>.reset");
    ACT(with("arena.<>.reset", id, 0));
    CHECK_EQ(fresh(with("stats.arenas.<>.bins.<>.curregs", id, SMALL_BIN)), 0);
    CHECK_EQ(get(with("stats.arenas.<>.large.allocated", id, 0)), 0);
    CHECK_EQ(get(with("stats.arenas.<>.bins.<>.nmalloc", id, SMALL_BIN)), get(with("stats.arenas.<>.bins.<>.ndalloc", id, SMALL_BIN)));
    CHECK_EQ(mallctl(with("arena.<>.reset", first, 0), NULL, NULL, NULL, 0), EFAULT);
    saw("thread.arena");
    SET_OK("thread.arena", unsigned, id);
    CHECK_EQ(get("thread.arena"), id);
    CHECK_EQ(lookup(objects[0] = malloc(640)), id);
    free(objects[0]);
    CHECK_EQ(mallctl(with("arena.<>.destroy", id, 0), NULL, NULL, NULL, 0), EFAULT); // this thread is bound to it
    SET_OK("thread.arena", unsigned, first);
    saw("arena.<>.destroy");
    CHECK_EQ(get("arena.4097.initialized"), 0);
    ACT(with("arena.<>.destroy", id, 0));
    CHECK_EQ(get(with("arena.<>.initialized", id, 0)), 0);
    CHECK_EQ(get("arena.4097.initialized"), 1);
    CHECK(fresh("stats.arenas.4097.small.nmalloc") >= 32);
    CHECK_EQ(mallctl(with("stats.arenas.<>.pactive", id, 0), objects, &size, NULL, 0), ENOENT);
    again = create("arenas.create");
    CHECK_EQ(again, id);
    CHECK_EQ(get("arenas.narenas"), before + 1);
    ACT(with("arena.<>.destroy", again, 0));
    chunks_asked = 0;
    CHECK_EQ(mallctl("arenas.create", &id, &lengths, &own, sizeof own), 0);
    objects[0] = mallocx(640, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);
    CHECK(chunks_asked > 0);
    ACT(with("arena.<>.destroy", id, 0));
    struct { extent_hooks_t *hooks; bool metadata; } configuration = { own, false };
    CHECK_EQ(mallctl("experimental.arenas_create_ext", &id, &lengths, &configuration, sizeof configuration), 0);
    ACT(with("arena.<>.destroy", id, 0));
}

// What jemalloc 5.3.1 has beyond 5.3.0.
static void newer(void) {
    char buffer[32], *to = buffer;
    const char *name = "a name that is longer than thirty-one characters";
    size_t size = sizeof to;
    unsigned id = create("arenas.create");
    uint64_t before = get("approximate_stats.active");
    void *object;

    CHECK_EQ(mallctl(with("arena.<>.name", id, 0), &to, &size, &name, sizeof name), 0);
    CHECK_EQ(strncmp(buffer, "manual_", 7), 0);
    CHECK_EQ(mallctl(with("arena.<>.name", id, 0), &to, &size, NULL, 0), 0);
    CHECK(strncmp(buffer, name, 31) == 0 && buffer[31] == '\0');
    CHECK_EQ(mallctl("arena.0.name", &to, &size, NULL, 0), 0);
    CHECK_EQ(strcmp(buffer, "auto_0"), 0);
    ACT(with("arena.<>.destroy", id, 0));
    CHECK_EQ(get("arenas.hugepage"), 2 << 20);
    object = malloc(LARGE);
    CHECK_EQ(get("approximate_stats.active"), before + LARGE);
    free(object);
}

static void utilization(void) {
    struct { void *lowest; size_t free_count, count, bytes, bin_free, bin_count; } one;
    size_t three[2][3], size = sizeof one;
    void *objects[2] = { malloc(640), malloc(100000) };
    struct { void **objects; size_t count, size; int flags; } batch;
    void *many[10] = { 0 };
    size_t made, length = sizeof made;

    saw("experimental.utilization.query");
    saw("experimental.utilization.batch_query");
    CHECK_EQ(mallctl("experimental.utilization.query", &one, &size, &objects[0], sizeof(void *)), 0);
    CHECK_EQ(one.count, get(with("arenas.bin.<>.nregs", SMALL_BIN, 0)));
    CHECK_EQ(one.bytes, get(with("arenas.bin.<>.slab_size", SMALL_BIN, 0)));
    CHECK(one.free_count < one.count && one.bin_free <= one.bin_count);
    size = sizeof three;
    CHECK_EQ(mallctl("experimental.utilization.batch_query", three, &size, objects, sizeof objects), 0);
    CHECK(three[0][0] == one.free_count && three[0][1] == one.count && three[0][2] == one.bytes);
    CHECK(three[1][0] == 0 && three[1][1] == 1 && three[1][2] == malloc_usable_size(objects[1]));
    size = sizeof three - 1;
    CHECK_EQ(mallctl("experimental.utilization.batch_query", three, &size, objects, sizeof objects), EINVAL);
    free(objects[0]);
    free(objects[1]);
    batch.objects = many;
    batch.count = 10;
    batch.size = 100;
    batch.flags = MALLOCX_ZERO;
    CHECK_EQ(mallctl("experimental.batch_alloc", &made, &length, &batch, sizeof batch), 0);
    CHECK_EQ(made, 10);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(*(char *)many[i], 0);
        free(many[i]);
    }
}

static jmp_buf told;

static void told_of_misuse(const char *line) {
    CHECK(strstr(line, "double free") != NULL || strstr(line, "not") != NULL);
    longjmp(told, 1);
}

static void safety(void) {
    void (*handler)(const char *) = told_of_misuse;
    static int outside;

    saw("experimental.hooks.safety_check_abort");
    CHECK_EQ(mallctl("experimental.hooks.safety_check_abort", NULL, NULL, &handler, sizeof handler), 0);
    if (setjmp(told) == 0) {
        void *volatile address = &outside;
        free(address);
        CHECK(!"reached");
    }
    handler = NULL;
    CHECK_EQ(mallctl("experimental.hooks.safety_check_abort", NULL, NULL, &handler, sizeof handler), 0);
}

/*
 * The profiler.
 */

static unsigned backtraces;
static char dumped[256];

static void counting_backtrace(void **frames, unsigned *count, unsigned most) {
    CHECK(most >= 1);
    backtraces++;
    frames[0] = (void *)(uintptr_t)counting_backtrace;
    *count = 1;
}

static void note_dump(const char *path) {
    strcpy(dumped, path);
}

static void profiler(void) {
    uint64_t live[2], pair = sizeof live, other;
    void (*before)(void **, unsigned *, unsigned), (*own)(void **, unsigned *, unsigned) = counting_backtrace;
    void (*no_hook)(const char *) = NULL, (*hook)(const char *) = note_dump;
    size_t size = sizeof before;
    void *objects[50];

    saw("experimental.hooks.prof_backtrace");
    saw("experimental.hooks.prof_dump");
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", &before, &size, &own, sizeof own), 0);
    CHECK(before != NULL && before != own);
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &no_hook, sizeof no_hook), EINVAL);
    saw("prof.reset");
    saw("prof.lg_sample");
    SET_OK("prof.reset", size_t, 0); // every allocation
    CHECK_EQ(get("prof.lg_sample"), 0);
    saw("prof.active");
    CHECK_EQ(get("prof.active"), 0);
    SET_OK("prof.active", bool, true);
    CHECK_EQ(get("prof.active"), 1);
    saw("prof.stats.bins.<>.live");
    saw("prof.stats.bins.<>.accum");
    saw("prof.stats.lextents.<>.live");
    saw("prof.stats.lextents.<>.accum");
    for (int i = 0; i < 50; i++)
        objects[i] = malloc(i % 2 ? SMALL : LARGE);
    CHECK(backtraces >= 50);
    for (int large = 0; large < 2; large++) {
        const char *name = large ? "prof.stats.lextents.30.live" : "prof.stats.bins.17.live";

        CHECK_EQ(mallctl(name, live, &pair, NULL, 0), 0);
        CHECK_EQ(live[1], 25);
        CHECK_EQ(live[0], (uint64_t)25 * (large ? LARGE : SMALL));
    }
    for (int i = 0; i < 50; i++)
        free(objects[i]);
    CHECK_EQ(mallctl("prof.stats.bins.17.live", live, &pair, NULL, 0), 0);
    CHECK_EQ(live[1], 0);
    CHECK_EQ(mallctl("prof.stats.bins.17.accum", live, &pair, NULL, 0), 0);
    CHECK_EQ(live[1], 25);
    saw("thread.prof.active");
    CHECK_EQ(get("thread.prof.active"), 1);
    SET_OK("thread.prof.active", bool, false);
    CHECK_EQ(get("thread.prof.active"), 0);
    other = backtraces;
    free(malloc(SMALL));
    CHECK_EQ(backtraces, other);
    SET_OK("thread.prof.active", bool, true);
    saw("thread.prof.name");
    SET_OK("thread.prof.name", const char *, "a name");
    CHECK_EQ(strcmp(text("thread.prof.name"), "a name"), 0);
    CHECK_EQ(SET("thread.prof.name", const char *, "a\nname"), EFAULT);
    saw("prof.thread_active_init");
    SET_OK("prof.thread_active_init", bool, false);
    CHECK_EQ(get("prof.thread_active_init"), 0);
    saw("prof.gdump");
    SET_OK("prof.gdump", bool, true);
    CHECK_EQ(get("prof.gdump"), 1);
    SET_OK("prof.gdump", bool, false);
    saw("prof.interval");
    CHECK_EQ(get("prof.interval"), 0);
    saw("prof.dump");
    saw("prof.prefix");
    CHECK_EQ(mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof hook), 0);
    SET_OK("prof.prefix", const char *, "./ctl_values");
    ACT("prof.dump");
    CHECK_EQ(strncmp(dumped, "./ctl_values.", 13), 0);
    CHECK_EQ(unlink(dumped), 0);
    CHECK_EQ(SET("prof.dump", const char *, "/no/such/folder/profile"), EFAULT);
    CHECK_EQ(mallctl("experimental.hooks.prof_dump", NULL, NULL, &no_hook, sizeof no_hook), 0);
    SET_OK("prof.active", bool, false);
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &before, sizeof before), 0);
}

int main(void) {
    free(malloc(1));
    internal_at_first = get("stats.arenas.4096.internal");
    background_start();
    process();
    classes();
    threads();
    small_objects();
    mutexes();
    retained();
    large_objects();
    decay();
    others();
    caches();
    arenas();
    newer();
    utilization();
    safety();
    profiler();
    fputs(seen, stdout);
    return 0;
}
