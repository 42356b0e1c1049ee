// Values of controls: statistics of the arena of this thread, its mutexes, what it keeps, and decay.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "values.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

static void order(void) {
    static const char *const in_pages[] = { "stats.active", "stats.resident", "stats.mapped", "stats.arenas.4096.resident" };

    CHECK(fresh("stats.allocated") <= get("stats.active"));
    CHECK(get("stats.active") <= get("stats.resident"));
    for (unsigned i = 0; i < sizeof in_pages / sizeof in_pages[0]; i++)
        CHECK_SAY(get(in_pages[i]) % get("arenas.page") == 0, "%s", in_pages[i]);
}

enum { SMALL_COUNT = 8000, LARGE_EXTENT = 30 };

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

void test_small_objects(void) {
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

void test_mutexes(void) {
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
void test_retained(void) {
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

void test_large_objects(void) {
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
    for (size_t i = 0; i < COUNT(purge_rise); i++) // those of all arenas have this one's among them
        CHECK_SAY(get(with(purge_rise[i], MALLCTL_ARENAS_ALL, 0)) >= get(with(purge_rise[i], arena, 0)), "%s", purge_rise[i]);
}

// An object that outgrows its place is freed there, and allocated in the other size, whether its pages move or not.
void test_moved_objects(void) {
    unsigned arena = own_arena();
    void *object = memset(malloc(LARGE), 1, LARGE), *behind = malloc(LARGE);

    CHECK(fresh(with("stats.arenas.<>.lextents.<>.curlextents", arena, LARGE_EXTENT)) >= 2);
    object = realloc(object, 8 * LARGE);
    CHECK(object != NULL);
    free(object);
    free(behind);
    CHECK_EQ(fresh(with("stats.arenas.<>.lextents.<>.curlextents", arena, LARGE_EXTENT)), 0);
}

void test_decay(void) {
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

void test_others(void) {
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
    SET_OK(with("arena.<>.dss", arena, 0), const char *, "primary");
    CHECK_EQ(strcmp(text(with("arena.<>.dss", arena, 0)), "primary"), 0);
    CHECK_EQ(strcmp(text(with("stats.arenas.<>.dss", arena, 0)), "primary"), 0);
    CHECK_EQ(SET(with("arena.<>.dss", arena, 0), const char *, "prim"), EINVAL);
    SET_OK(with("arena.<>.dss", arena, 0), const char *, "disabled");
    SET_OK("arena.4096.dss", const char *, "secondary");
    CHECK_EQ(strcmp(text("arena.4096.dss"), "secondary"), 0);
    CHECK_EQ(strcmp(text("stats.arenas.4096.dss"), "secondary"), 0);
    saw("arena.<>.oversize_threshold");
    SET_OK(with("arena.<>.oversize_threshold", arena, 0), size_t, 12345678);
    CHECK_EQ(get(with("arena.<>.oversize_threshold", arena, 0)), 12345678);
    saw("arena.<>.retain_grow_limit");
    CHECK_EQ(SET(with("arena.<>.retain_grow_limit", arena, 0), size_t, 1), EFAULT);
    CHECK_EQ(SET(with("arena.<>.retain_grow_limit", arena, 0), size_t, SIZE_MAX), EFAULT);
    SET_OK(with("arena.<>.retain_grow_limit", arena, 0), size_t, SIZE_MAX - 1);
    CHECK_EQ(get(with("arena.<>.retain_grow_limit", arena, 0)), (size_t)7 << 60);
    SET_OK(with("arena.<>.retain_grow_limit", arena, 0), size_t, (size_t)3 << 20 | 5);
    CHECK_EQ(get(with("arena.<>.retain_grow_limit", arena, 0)), (size_t)3 << 20);
    (void)object;
}

/*
 * Sums over all arenas.
 */

// All that is counted, and is not 0 in the arena made for it; `first`: in the first one in place of it, of which is told what all share, and whose pages
// no hooks purge.
static const struct {
    const char *name;
    unsigned j;
    bool first;
} summed[] = {
    { "pactive", 0, false }, { "pdirty", 0, false }, { "mapped", 0, false }, { "retained", 0, false }, { "base", 0, false },
    { "internal", 0, true }, { "tcache_bytes", 0, false }, { "resident", 0, false }, { "dirty_npurge", 0, true },
    { "dirty_nmadvise", 0, true }, { "dirty_purged", 0, true }, { "nthreads", 0, false },
    { "small.allocated", 0, false }, { "small.nmalloc", 0, false }, { "small.ndalloc", 0, false }, { "small.nrequests", 0, false },
    { "small.nfills", 0, false }, { "small.nflushes", 0, false }, { "large.allocated", 0, false }, { "large.nmalloc", 0, false },
    { "large.ndalloc", 0, false }, { "large.nrequests", 0, false }, { "large.nfills", 0, false }, { "large.nflushes", 0, false },
    { "bins.<>.nmalloc", SMALL_BIN, false }, { "bins.<>.ndalloc", SMALL_BIN, false }, { "bins.<>.nrequests", SMALL_BIN, false },
    { "bins.<>.curregs", SMALL_BIN, false }, { "bins.<>.nfills", SMALL_BIN, false }, { "bins.<>.nflushes", SMALL_BIN, false },
    { "bins.<>.nslabs", SMALL_BIN, false }, { "bins.<>.nreslabs", SMALL_BIN, false }, { "bins.<>.curslabs", SMALL_BIN, false },
    { "bins.<>.nonfull_slabs", SMALL_BIN, false }, { "bins.<>.mutex.num_ops", SMALL_BIN, false },
    { "lextents.<>.nmalloc", LARGE_EXTENT, false }, { "lextents.<>.ndalloc", LARGE_EXTENT, false },
    { "lextents.<>.nrequests", LARGE_EXTENT, false }, { "lextents.<>.curlextents", LARGE_EXTENT, false },
    { "mutexes.large.num_ops", 0, false }, { "mutexes.extents_dirty.num_ops", 0, false }, { "mutexes.extents_retained.num_ops", 0, false },
    { "mutexes.base.num_ops", 0, true }, { "mutexes.tcache_list.num_ops", 0, true },
};

enum { MEDIUM = 20000 }; // large to jemalloc, with magazines and a depot

static uint64_t of_arena(const char *name, unsigned arena, unsigned j) {
    char whole[96];

    sprintf(whole, "stats.arenas.<>.%s", name);
    return get(with(whole, arena, j));
}

static uint64_t of_arenas(const char *name, unsigned j) {
    unsigned arenas = (unsigned)get("arenas.narenas");
    uint64_t sum = get("arena.4097.initialized") ? of_arena(name, 4097, j) : 0;

    for (unsigned i = 0; i < arenas; i++)
        if (get(with("arena.<>.initialized", i, 0)))
            sum += of_arena(name, i, j);
    return sum;
}

// Of this thread as well, and half of it given back.
static void use_arena(unsigned arena) {
    static void *small[SMALL_COUNT], *large[4];

    SET_OK("thread.arena", unsigned, arena);
    for (int i = 0; i < SMALL_COUNT; i++)
        small[i] = mallocx(SMALL, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
    for (int i = 0; i < SMALL_COUNT; i += 2)
        dallocx(small[i], MALLOCX_TCACHE_NONE);
    for (int i = 0; i < 4; i++)
        large[i] = memset(mallocx(LARGE, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE), 1, LARGE);
    dallocx(large[1], MALLOCX_TCACHE_NONE);
    ACT(with("arena.<>.purge", arena, 0));
    SET_OK(with("arena.<>.dirty_decay_ms", arena, 0), ssize_t, -1);
    dallocx(large[3], MALLOCX_TCACHE_NONE);
    for (int i = 0; i < SMALL_COUNT; i++)
        small[i] = malloc(i % 16 ? SMALL : MEDIUM);
    for (int i = 0; i < SMALL_COUNT; i++)
        free(small[i]);
}

void test_sums(void) {
    static extent_hooks_t hooks, *own = &hooks;
    unsigned before = own_arena(), arena;
    size_t size = sizeof own, uptime;

    CHECK_EQ(mallctl("arena.0.extent_hooks", &own, &size, NULL, 0), 0);
    hooks = *own; // others, so that the arena has extents of its own
    own = &hooks;
    size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, &own, sizeof own), 0);
    use_arena(arena);
    refresh();
    for (size_t i = 0; i < COUNT(summed); i++) {
        uint64_t part = of_arena(summed[i].name, summed[i].first ? 0 : arena, summed[i].j);
        uint64_t sum = of_arena(summed[i].name, MALLCTL_ARENAS_ALL, summed[i].j);

        CHECK_SAY(part > 0, "%s", summed[i].name);
        CHECK_SAY(sum == of_arenas(summed[i].name, summed[i].j), "%s", summed[i].name);
    }
    uptime = get("stats.arenas.4096.uptime") - get("stats.arenas.0.uptime"); // the oldest one's, and the clock goes on from one to the next
    CHECK_SAY(uptime < 1000000000, "%zu", uptime);
    SET_OK("thread.arena", unsigned, before);
    ACT(with("arena.<>.destroy", arena, 0));
}
