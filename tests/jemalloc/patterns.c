// What public programs do with the interface, each as its source does it: RocksDB's and folly's arenas that core dumps leave out, HHVM's
// arena that grows in a range of its own, folly's idle threads, Arrow's pool, Valkey's and ClickHouse's figures.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../check.h"
#include "../support/pattern.h"

enum { OBJECTS = 400 };

static void name_of(char name[64], const char *format, unsigned arena) {
    snprintf(name, 64, format, arena);
}

static uint64_t word(const char *name, size_t size) {
    uint64_t value = 0;

    CHECK_SAY(mallctl(name, &value, &size, NULL, 0) == 0, "%s", name);
    return value;
}

static size_t bytes(const char *name) {
    return word(name, sizeof(size_t));
}

static void refresh(void) {
    uint64_t epoch = 1;
    size_t size = sizeof epoch;

    CHECK_EQ(mallctl("epoch", &epoch, &size, &epoch, size), 0); // read and written by one call, as Redis does
}

// Whether the kernel marks the mapping at the address with two letters (proc(5), VmFlags).
static int is_marked(const void *address, const char *mark) {
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long start, end;
    int inside = 0, marked = -1;

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = (uintptr_t)address >= start && (uintptr_t)address < end;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            marked = strstr(line, mark) != NULL;
    }
    fclose(file);
    return marked;
}

/*
 * Not in core dumps: the alloc hook is that of the arena before, given the new hooks as they come.
 */

static extent_alloc_t *alloc_before;
static unsigned extents_given;

static void *alloc_undumped(extent_hooks_t *hooks, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    void *extent = alloc_before(hooks, address, size, align, zero, commit, arena);

    if (extent != NULL) {
        CHECK_EQ(madvise(extent, size, MADV_DONTDUMP), 0);
        extents_given++;
    }
    return extent;
}

static unsigned undumped_arena(extent_hooks_t *own) {
    extent_hooks_t *before;
    unsigned arena;
    size_t size = sizeof arena;
    char name[64];

    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    name_of(name, "arena.%u.extent_hooks", arena);
    size = sizeof before;
    CHECK_EQ(mallctl(name, &before, &size, NULL, 0), 0);
    alloc_before = before->alloc;
    *own = *before;
    own->alloc = alloc_undumped;
    CHECK_EQ(mallctl(name, NULL, NULL, &own, sizeof own), 0);
    return arena;
}

struct user {
    unsigned arena;
};

// Each thread has a cache of its own for the arena, as RocksDB's has; objects beyond a size go past it.
static void *use_arena(void *argument) {
    const struct user *user = argument;
    unsigned cache;
    size_t size = sizeof cache;
    unsigned char *objects[OBJECTS];

    CHECK_EQ(mallctl("tcache.create", &cache, &size, NULL, 0), 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            size_t wanted = 1 + (size_t)i * 61 % 9000 + (i % 50 == 0 ? 300000u : 0);
            int flags = MALLOCX_ARENA(user->arena) | (wanted > 4096 ? MALLOCX_TCACHE_NONE : MALLOCX_TCACHE(cache));

            objects[i] = mallocx(wanted, flags);
            CHECK(objects[i] != NULL && malloc_usable_size(objects[i]) >= wanted);
            pattern_fill(objects[i], malloc_usable_size(objects[i]), (uintptr_t)objects[i]);
        }
        CHECK_EQ(is_marked(objects[round], "dd"), 1);
        for (int i = 0; i < OBJECTS; i++) {
            pattern_verify(objects[i], malloc_usable_size(objects[i]), (uintptr_t)objects[i]);
            dallocx(objects[i], malloc_usable_size(objects[i]) > 4096 ? MALLOCX_TCACHE_NONE : MALLOCX_TCACHE(cache));
        }
    }
    CHECK_EQ(mallctl("tcache.flush", NULL, NULL, &cache, sizeof cache), 0);
    CHECK_EQ(mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache), 0);
    return NULL;
}

static void undumped(void) {
    static extent_hooks_t hooks;
    struct user user = { .arena = undumped_arena(&hooks) };
    pthread_t threads[2];
    void *ordinary = malloc(100), *object;
    char name[64];

    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, use_arena, &user), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(extents_given > 0);
    CHECK_EQ(is_marked(ordinary, "dd"), 0);
    object = mallocx(100, MALLOCX_ARENA(user.arena) | MALLOCX_TCACHE_NONE);
    CHECK_EQ(is_marked(object, "dd"), 1);
    free(object); // by who does not know whose it is
    free(ordinary);
    name_of(name, "arena.%u.destroy", user.arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
}

/*
 * A range of one's own, handed out from its start; nothing else is offered. When it is used up, ordinary memory is asked for.
 */

static char *range, *range_at;
enum { RANGE = 64 << 20 };

static void *alloc_from_range(extent_hooks_t *hooks, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    char *start = (char *)(((uintptr_t)range_at + align - 1) & -align);

    (void)hooks, (void)arena;
    if (address != NULL || size > (size_t)(range + RANGE - start))
        return NULL;
    range_at = start + size;
    *zero = *commit = true;
    return start;
}

static void bumped(void) {
    static extent_hooks_t hooks = { .alloc = alloc_from_range }, *own = &hooks;
    unsigned arena, before, old;
    size_t size = sizeof arena, given = 0;
    void *objects[200];

    range = range_at = mmap(NULL, RANGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(range != MAP_FAILED);
    CHECK_EQ(mallctl("arenas.create", &arena, &size, &own, sizeof own), 0);
    for (int i = 0; i < 200 && (objects[i] = mallocx(1 << 20, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE)) != NULL; i++, given++) {
        CHECK((char *)objects[i] >= range && (char *)objects[i] + (1 << 20) <= range + RANGE);
        memset(objects[i], i, 1 << 20);
    }
    CHECK_SAY(given >= 16 && given <= 64, "%zu MiB of 64", given); // and then NULL
    for (size_t i = 0; i < given; i++)
        free(objects[i]);
    before = (unsigned)word("thread.arena", sizeof before);
    size = sizeof old;
    CHECK_EQ(mallctl("thread.arena", &old, &size, &arena, sizeof arena), 0);
    CHECK_EQ(old, before);
    objects[0] = malloc(300000);
    CHECK((char *)objects[0] >= range && (char *)objects[0] < range + RANGE);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &before, sizeof before), 0);
    free(objects[0]);
}

/*
 * A thread that will sleep: its cache is given up, and the dirty pages of its arena if no other uses it. By MIBs whose index changes.
 */

static void *idle(void *unused) {
    unsigned arena, count = (unsigned)word("opt.narenas", sizeof(unsigned));
    size_t mib[3], length = 3, size = sizeof arena;
    char name[64];

    free(memset(malloc(3 << 20), 1, 3 << 20));
    CHECK(count > 0 && word("opt.tcache", sizeof(bool)) == 1);
    CHECK_EQ(mallctl("thread.arena", &arena, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(mallctlnametomib("arena.0.purge", mib, &length), 0);
    CHECK_EQ(length, 3);
    mib[1] = arena;
    CHECK_EQ(mallctlbymib(mib, length, NULL, NULL, NULL, 0), 0);
    refresh();
    name_of(name, "stats.arenas.%u.pdirty", arena);
    CHECK_EQ(bytes(name), 0);
    CHECK_EQ(mallctl("thread.idle", NULL, NULL, NULL, 0), 0);
    return unused;
}

static void idles(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, idle, NULL), 0);
    pthread_join(thread, NULL);
}

/*
 * Decay set for what is and what comes; figures.
 */

static void arrow_pool(void) {
    ssize_t decay = 0, was;
    unsigned arenas = (unsigned)word("arenas.narenas", sizeof arenas), set = 0;
    size_t size = sizeof was;
    char name[64];
    unsigned char *buffer;

    CHECK_EQ(mallctl("arenas.dirty_decay_ms", &was, &size, &decay, sizeof decay), 0);
    CHECK_EQ(mallctl("arenas.muzzy_decay_ms", NULL, NULL, &decay, sizeof decay), 0);
    for (unsigned i = 0; i < arenas; i++) {
        name_of(name, "arena.%u.dirty_decay_ms", i);
        set += mallctl(name, NULL, NULL, &decay, sizeof decay) == 0; // arenas that no thread has had yet are not there
    }
    CHECK(set > 0);
    buffer = mallocx(1 << 20, MALLOCX_ALIGN(64));
    CHECK(buffer != NULL && (uintptr_t)buffer % 64 == 0);
    memset(buffer, 7, 1 << 20);
    buffer = rallocx(buffer, 5 << 20, MALLOCX_ALIGN(64));
    CHECK(buffer != NULL && (uintptr_t)buffer % 64 == 0 && buffer[(1 << 20) - 1] == 7);
    dallocx(buffer, MALLOCX_ALIGN(64));
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &was, sizeof was), 0);
}

static void figures(void) {
    static const char *const whole[] = { "stats.allocated", "stats.active", "stats.resident", "stats.mapped", "stats.metadata", "stats.retained",
                                         "stats.metadata_thp", "stats.background_thread.num_threads", "stats.background_thread.num_runs",
                                         "stats.background_thread.run_interval", "arenas.page", "arenas.tcache_max" };
    static const char *const all[] = { "stats.arenas.%u.pactive", "stats.arenas.%u.pdirty", "stats.arenas.%u.pmuzzy", "stats.arenas.%u.dirty_purged",
                                       "stats.arenas.%u.muzzy_purged", "stats.arenas.%u.mapped", "stats.arenas.%u.resident", "stats.arenas.%u.retained",
                                       "stats.arenas.%u.small.allocated", "stats.arenas.%u.large.allocated", "stats.arenas.%u.tcache_bytes" };
    char name[64];
    size_t value[3], small = 0;

    refresh();
    for (unsigned i = 0; i < sizeof whole / sizeof whole[0]; i++)
        bytes(whole[i]);
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        name_of(name, all[i], MALLCTL_ARENAS_ALL);
        bytes(name);
    }
    value[0] = bytes("stats.allocated");
    value[1] = bytes("stats.active");
    value[2] = bytes("stats.resident");
    CHECK(value[0] <= value[1] && value[1] <= value[2]);
    name_of(name, "stats.arenas.%u.pactive", MALLCTL_ARENAS_ALL);
    CHECK_EQ(bytes(name) * bytes("arenas.page"), value[1]);
    for (unsigned i = 0; i < (unsigned)word("arenas.narenas", sizeof(unsigned)); i++) { // as Valkey asks, arena by arena
        name_of(name, "arena.%u.initialized", i);
        if (word(name, sizeof(bool)) == 0)
            continue;
        name_of(name, "stats.arenas.%u.small.allocated", i);
        small += bytes(name);
    }
    CHECK(small > 0 && small <= value[0]);
    name_of(name, "arena.%u.purge", MALLCTL_ARENAS_ALL);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
}

int main(void) {
    undumped();
    bumped();
    idles();
    arrow_pool();
    figures();
    return 0;
}
