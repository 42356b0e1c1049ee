// Tests pages/runs.h: dirty pages are used first, purging really gives memory back, decay along a falling line by a clock of
// our own, and the proportion of dirty to active pages.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "pages/runs.h"

#include <string.h>
#include <sys/mman.h>

#include "conf/options.h"
#include "heap/heap.h"
#include "os/clock.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "../../support/resident.h" // no huge pages but those that are asked for
#include "unit.h"

// The proportion and its floor are those of runs.c.
enum { RUN = 64 * 1024, RUNS = 512, DECAY_MS = 1600, PROPORTION = 4, FLOOR = 2 * 1024 * 1024 };

static size_t resident(uintptr_t start, size_t size) {
    static unsigned char vector[(64 * 1024 * 1024) / 4096];
    size_t pages = 0, count = size / os_page_size();

    CHECK(count <= sizeof vector && mincore((void *)start, size, vector) == 0);
    for (size_t i = 0; i < count; i++)
        pages += vector[i] & 1;
    return pages * os_page_size();
}

// No huge page takes long here (pages/dear.h), whatever the machine.
uint64_t __wrap_os_clock_thread_ns(void);

uint64_t __wrap_os_clock_thread_ns(void) {
    return 0;
}

static void check_zero(uintptr_t start, size_t size) {
    const unsigned char *bytes = (const unsigned char *)start;

    for (size_t i = 0; i < size; i += 509)
        CHECK_EQ(bytes[i], 0);
}

// An arena of runs that never decays or purges by itself.
static void pages_make(struct pages *pages) {
    options.dirty_decay_ms = -1;
    options.thp = false;
    memset(pages, 0, sizeof *pages);
    pages_init(pages, "test");
}

static uintptr_t take(struct pages *pages, size_t size, bool *zeroed) {
    size_t active = pages_active_bytes(pages);
    uintptr_t start = pages_alloc(pages, size, 0, zeroed);

    CHECK(start != 0 && start % os_page_size() == 0);
    CHECK_EQ(pages_active_bytes(pages), active + round_up(size, os_page_size()));
    if (*zeroed)
        check_zero(start, size);
    memset((void *)start, 0xa5, size);
    return start;
}

static void end(struct pages *pages) {
    pages_purge(pages, 0);
    CHECK_EQ(pages_active_bytes(pages), 0);
    CHECK_EQ(pages_dirty_bytes(pages), 0);
    CHECK_EQ(pages->runs.total_bytes, 0); // every chunk has gone back
    vmem_check(&pages->runs);
}

static void dirty_first(void) {
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    uintptr_t first = take(&pages, RUN, &zeroed), second = take(&pages, RUN, &zeroed), third;
    CHECK(zeroed);
    pages_free(&pages, first, RUN);
    CHECK_EQ(pages_dirty_bytes(&pages), RUN);
    third = take(&pages, RUN, &zeroed);
    CHECK(third == first && !zeroed);
    CHECK_EQ(pages_dirty_bytes(&pages), 0);
    pages_free(&pages, second, RUN);
    pages_free(&pages, third, RUN);
    end(&pages);
}

static void alignment(void) {
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    for (size_t align = 4096; align <= (size_t)16 << 20; align *= 4) {
        uintptr_t start = pages_alloc(&pages, 3 * RUN, align, &zeroed);

        CHECK(start != 0 && start % align == 0);
        pages_free(&pages, start, 3 * RUN);
    }
    end(&pages);
}

// Holes that have no aligned place are not all looked at, whatever their number: a chunk is taken instead.
static void aligned_among_holes(void) {
    enum { HOLES = 5000, LOOKS_MOST = 200, REQUESTS = 100 };
    static uintptr_t runs[2 * HOLES];
    struct pages pages;
    bool zeroed;
    uint64_t before;

    pages_make(&pages);
    for (int i = 0; i < 2 * HOLES; i++)
        CHECK((runs[i] = pages_alloc(&pages, 4 * os_page_size(), 0, &zeroed)) != 0);
    for (int i = 0; i < 2 * HOLES; i++)
        if (runs[i] % RUN == 4 * os_page_size() % RUN)
            pages_free(&pages, runs[i], 4 * os_page_size());
    before = pages.runs.searches;
    for (int i = 0; i < REQUESTS; i++) {
        uintptr_t start = pages_alloc(&pages, 4 * os_page_size(), RUN, &zeroed);

        CHECK(start != 0 && start % RUN == 0);
    }
    CHECK_LE((pages.runs.searches - before) / REQUESTS, LOOKS_MOST);
    vmem_check(&pages.runs);
}

static void purge_gives_back(void) {
    struct pages pages;
    bool zeroed;
    size_t size = 3 * RUN;

    pages_make(&pages);
    uintptr_t keep = take(&pages, RUN, &zeroed), start = take(&pages, size, &zeroed), wall = take(&pages, RUN, &zeroed);
    CHECK_EQ(resident(start, size), size);
    pages_free(&pages, start, size);
    CHECK_EQ(resident(start, size), size); // dirty
    CHECK(!pages_purge(&pages, size));     // so many may stay
    CHECK(pages_purge(&pages, size - RUN));
    CHECK_LE(pages_dirty_bytes(&pages), size - RUN);
    CHECK(pages_dirty_bytes(&pages) == 0 || pages_purge(&pages, 0));
    CHECK_EQ(pages_dirty_bytes(&pages), 0);
    CHECK_EQ(resident(start, size), 0);
    CHECK(!pages_purge(&pages, 0));
    CHECK_EQ(resident(keep, RUN) + resident(wall, RUN), 2 * RUN); // what is in use is left alone
    CHECK_EQ(*(unsigned char *)keep, 0xa5);
    CHECK_EQ(((unsigned char *)wall)[RUN - 1], 0xa5);
    CHECK(take(&pages, size, &zeroed) != 0 && zeroed);
    pages_free(&pages, start, size);
    pages_free(&pages, keep, RUN);
    pages_free(&pages, wall, RUN);
    end(&pages);
}

static void resize_in_place(void) {
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    uintptr_t start = take(&pages, 4 * RUN, &zeroed);
    pages_shrink(&pages, start, 4 * RUN, RUN);
    CHECK_EQ(pages_dirty_bytes(&pages), 3 * RUN);
    CHECK(pages_extend(&pages, start, RUN, 2 * RUN, &zeroed) && !zeroed);
    uintptr_t wall = take(&pages, 2 * RUN, &zeroed);
    CHECK_EQ(wall, start + 2 * RUN);
    CHECK(!pages_extend(&pages, start, 2 * RUN, 3 * RUN, &zeroed));
    pages_free(&pages, wall, 2 * RUN);
    CHECK(pages_extend(&pages, start, 2 * RUN, 3 * RUN, &zeroed) && !zeroed);
    pages_purge(&pages, 0);
    CHECK(pages_extend(&pages, start, 3 * RUN, 4 * RUN, &zeroed) && zeroed);
    check_zero(start + 3 * RUN, RUN);
    pages_free(&pages, start, 4 * RUN);
    end(&pages);
}

// Runs with one in use after each, so that every freed one is a segment of its own.
static void take_many(struct pages *pages, uintptr_t runs[RUNS]) {
    bool zeroed;

    for (int i = 0; i < RUNS; i++)
        runs[i] = take(pages, RUN, &zeroed);
}

static void free_every_second(struct pages *pages, const uintptr_t runs[RUNS], int from) {
    for (int i = from; i < RUNS; i += 2)
        pages_free(pages, runs[i], RUN);
}

// What may at most be dirty `age` ms after everything was freed, a line from all to none; steps are coarse, so two of grace.
static size_t line(size_t all, uint64_t age) {
    uint64_t grace = 2 * (DECAY_MS / DECAY_STEPS + 1);

    return age <= grace ? all : age >= DECAY_MS + grace ? 0 : all - all * (age - grace) / DECAY_MS;
}

// Looks at the clock every `look_ms` until all is clean.
static void watch_decay(struct pages *pages, uint64_t look_ms) {
    uint64_t now = 1000000;

    options.dirty_decay_ms = DECAY_MS;
    size_t all = pages_dirty_bytes(pages), before = all;
    // The first look sees what has become dirty since the last.
    for (uint64_t age = 0; age <= 2 * DECAY_MS; age += look_ms) {
        pages_decay(pages, now + age);
        size_t dirty = pages_dirty_bytes(pages);

        CHECK_LE(dirty, before); // monotone
        CHECK_LE(dirty, line(all, age));
        CHECK_GE(dirty + all / 2, line(all, age)); // nor far before the line: no cliff
        before = dirty;
    }
    CHECK_EQ(before, 0);
    options.dirty_decay_ms = -1;
}

static void decay_of_many_runs(uint64_t look_ms) {
    static uintptr_t runs[RUNS];
    struct pages pages;

    pages_make(&pages);
    take_many(&pages, runs);
    options.dirty_decay_ms = DECAY_MS;
    pages_decay(&pages, 1000000 - 10 * DECAY_MS); // the clock has been looked at before
    free_every_second(&pages, runs, 0);
    size_t all = pages_dirty_bytes(&pages);
    CHECK_EQ(all, RUNS / 2 * RUN);
    pages_decay(&pages, 1000000 - 10 * DECAY_MS); // no time has passed: nothing is due
    CHECK_EQ(pages_dirty_bytes(&pages), all);
    watch_decay(&pages, look_ms);
    for (int i = 0; i < RUNS; i += 2)
        CHECK_EQ(resident(runs[i], RUN), 0);
    free_every_second(&pages, runs, 1);
    end(&pages);
}

// One large dirty run decays along the same line as many small ones.
static void decay_of_one_run(void) {
    struct pages pages;
    bool zeroed;
    size_t size = 16 * 1024 * 1024;

    pages_make(&pages);
    uintptr_t start = take(&pages, size, &zeroed);
    options.dirty_decay_ms = DECAY_MS;
    pages_decay(&pages, 1000000 - 10 * DECAY_MS);
    pages_free(&pages, start, size);
    watch_decay(&pages, 50);
    end(&pages);
}

// What is dirty stays as long as the heap grows by as much in each step, for it will take that next; not when it grew long ago.
static void growth_is_awaited(void) {
    enum { STEP = DECAY_MS / DECAY_STEPS, LARGE = 4 * 1024 * 1024 };
    static uintptr_t runs[RUNS];
    uintptr_t large[3];
    struct pages pages;
    uint64_t now = 1000000;
    bool zeroed;

    pages_make(&pages);
    take_many(&pages, runs);
    options.dirty_decay_ms = DECAY_MS;
    pages_decay(&pages, now);
    for (int i = 0; i < 16; i += 2)
        pages_free(&pages, runs[i], RUN);
    size_t dirty = pages_dirty_bytes(&pages);
    CHECK_EQ(dirty, 8 * RUN);
    for (int i = 0; i < 2; i++) {
        large[i] = take(&pages, LARGE, &zeroed);
        pages_decay(&pages, now += STEP);
        CHECK_EQ(pages_dirty_bytes(&pages), dirty);
    }
    large[2] = take(&pages, LARGE, &zeroed);
    pages_decay(&pages, now += 20 * STEP);
    CHECK_LE(pages_dirty_bytes(&pages), LARGE / 20);
    for (int i = 0; i < 3; i++)
        pages_free(&pages, large[i], LARGE);
    free_every_second(&pages, runs, 16);
    free_every_second(&pages, runs, 1);
    end(&pages);
}

// A page that the program locked and freed holds up nothing, and goes back with the others.
static void locked_pages(void) {
    static uintptr_t runs[RUNS];
    size_t page = os_page_size();
    struct pages pages;

    pages_make(&pages);
    take_many(&pages, runs);
    if (mlock((void *)(runs[RUNS / 2] + RUN / 2), page) == 0) {
        free_every_second(&pages, runs, 0);
        CHECK(pages_purge(&pages, 0));
        CHECK_EQ(pages_dirty_bytes(&pages), 0);
        for (int i = 0; i < RUNS; i += 2)
            CHECK_EQ(resident(runs[i], RUN), 0);
        check_zero(runs[RUNS / 2], RUN);
    } else
        free_every_second(&pages, runs, 0);
    free_every_second(&pages, runs, 1);
    end(&pages);
}

// Who locks all that there will ever be keeps what there is; none of it is lost.
static void all_locked(void) {
    struct pages pages;
    uintptr_t start;
    bool zeroed;

    pages_make(&pages);
    start = take(&pages, RUN, &zeroed);
    pages_free(&pages, start, RUN);
    CHECK(pages_purge(&pages, 0)); // the system was asked what it does with pages that are given back
    start = take(&pages, RUN, &zeroed);
    uintptr_t wall = take(&pages, RUN, &zeroed);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) == 0) {
        pages_free(&pages, start, RUN);
        CHECK(!pages_purge(&pages, 0));
        CHECK_EQ(pages_dirty_bytes(&pages), RUN);
        CHECK_EQ(resident(start, RUN), RUN);
        CHECK_EQ(munlockall(), 0);
    } else
        pages_free(&pages, start, RUN);
    CHECK(pages_purge(&pages, 0));
    CHECK_EQ(resident(start, RUN), 0);
    pages_free(&pages, wall, RUN);
    end(&pages);
}

// What is untouched of an object, however large, takes few calls.
static void large_in_few_calls(void) {
    enum { CALLS_MOST = 65 };
    size_t size = (size_t)16 << 30;
    struct pages pages;
    uintptr_t start;
    bool zeroed;

    pages_make(&pages);
    start = pages_alloc(&pages, size, 0, &zeroed);
    if (start == 0)
        return; // no such addresses
    pages_free(&pages, start, size);
    end(&pages);
    CHECK_EQ(pages.purged_bytes, size);
    CHECK_LE(pages.purge_calls, CALLS_MOST);
}

static void no_decay(void) {
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    uintptr_t start = take(&pages, RUN, &zeroed);
    pages_free(&pages, start, RUN);
    pages_decay(&pages, 1000000);
    pages_decay(&pages, 1000000000);
    CHECK_EQ(pages_dirty_bytes(&pages), RUN); // -1: never
    start = take(&pages, RUN, &zeroed);
    options.dirty_decay_ms = 0;
    pages_free(&pages, start, RUN);
    CHECK_EQ(pages_dirty_bytes(&pages), 0); // 0: at once
    start = take(&pages, 2 * RUN, &zeroed);
    CHECK(pages_shrink(&pages, start, 2 * RUN, RUN));
    CHECK_EQ(pages_dirty_bytes(&pages), 0);
    pages_free(&pages, start, RUN);
    end(&pages);
}

// Above a share of the active bytes and a floor, no fresh page is taken into use without a dirty one given back.
static void proportion(void) {
    static uintptr_t runs[RUNS];
    uintptr_t taken[8];
    struct pages pages;
    bool zeroed;
    size_t size = 20 * RUN; // larger than any dirty run, so a clean one

    pages_make(&pages);
    take_many(&pages, runs);
    free_every_second(&pages, runs, 0);
    options.dirty_decay_ms = DECAY_MS;
    pages.made_up_at = os_clock_ms() + 1000 * 1000; // nothing for a new peak (at_a_peak)
    for (int i = 0; i < 8; i++) {
        size_t before = pages_dirty_bytes(&pages), allowed = (pages_active_bytes(&pages) + size) / PROPORTION + FLOOR;

        taken[i] = take(&pages, size, &zeroed);
        CHECK(zeroed);
        CHECK_LE(pages_dirty_bytes(&pages), before <= allowed ? before : max_size(allowed, before - size));
        CHECK_GE(pages_dirty_bytes(&pages) + size + RUN, min_size(before, allowed)); // nor much more than that
    }
    CHECK_LE(pages_dirty_bytes(&pages), pages_active_bytes(&pages) / PROPORTION + FLOOR);
    options.dirty_decay_ms = -1;
    for (int i = 0; i < 8; i++)
        pages_free(&pages, taken[i], size);
    free_every_second(&pages, runs, 1);
    end(&pages);
}

// So is what an object grows into in place.
static void proportion_of_growth(void) {
    static uintptr_t runs[RUNS];
    size_t size = 20 * RUN, more = 64 * RUN, before, allowed;
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    take_many(&pages, runs);
    uintptr_t grown = take(&pages, size + more, &zeroed);
    CHECK(zeroed && pages_shrink(&pages, grown, size + more, size + RUN));
    pages_purge(&pages, 0);
    free_every_second(&pages, runs, 0);
    options.dirty_decay_ms = DECAY_MS;
    before = pages_dirty_bytes(&pages);
    allowed = (pages_active_bytes(&pages) + more) / PROPORTION + FLOOR;
    CHECK_GE(before, allowed + more);
    CHECK(pages_extend(&pages, grown, size + RUN, size + more, &zeroed) && zeroed);
    CHECK_LE(pages_dirty_bytes(&pages), before - more + 2 * RUN);
    options.dirty_decay_ms = -1;
    pages_free(&pages, grown, size + more);
    free_every_second(&pages, runs, 1);
    end(&pages);
}

// What becomes resident elsewhere is made up for by as much that is dirty, where there is any, and nothing beyond.
static void made_up(void) {
    static uintptr_t runs[RUNS];
    struct pages pages;
    size_t dirty;

    pages_make(&pages);
    take_many(&pages, runs);
    free_every_second(&pages, runs, 0);
    dirty = pages_dirty_bytes(&pages);
    pages_make_up(&pages, RUN);
    CHECK_EQ(pages_dirty_bytes(&pages), dirty); // never
    options.dirty_decay_ms = DECAY_MS;
    pages_make_up(&pages, 3 * RUN);
    CHECK_LE(pages_dirty_bytes(&pages), dirty - 3 * RUN);
    CHECK_GE(pages_dirty_bytes(&pages), dirty - 4 * RUN);
    pages_make_up(&pages, 2 * dirty);
    CHECK_EQ(pages_dirty_bytes(&pages), 0);
    pages_make_up(&pages, RUN);
    options.dirty_decay_ms = -1;
    free_every_second(&pages, runs, 1);
    end(&pages);
}

// At a new peak dirty runs go back, as fast as may be, and where there are huge pages only those that are as large as one.
static void at_a_peak(void) {
    enum { MIB = 1024 * 1024, IDLE = 20 * MIB, FRESH = 24 * MIB, LIVE = 120 * MIB, PIECES = 16 };
    uintptr_t live, idle, fresh[4], pieces[PIECES];
    struct pages pages;
    uint64_t begin;
    bool zeroed;

    pages_make(&pages);
    options.dirty_decay_ms = DECAY_MS;
    live = take(&pages, LIVE, &zeroed);
    idle = take(&pages, IDLE, &zeroed);
    pages_free(&pages, idle, IDLE);
    pages.made_up_at = os_clock_ms() + 1000 * 1000; // as if much had been given just now
    fresh[0] = take(&pages, FRESH, &zeroed);
    CHECK_EQ(pages_dirty_bytes(&pages), IDLE - FRESH / 4);
    pages.made_up_at = 0;
    begin = os_clock_ms();
    fresh[1] = take(&pages, FRESH, &zeroed);
    CHECK_EQ(pages_dirty_bytes(&pages), 0);
    CHECK_GE(pages.made_up_at, begin); // and that was all for now

    for (int i = 0; i < PIECES; i++)
        pieces[i] = take(&pages, MIB, &zeroed);
    for (int i = 0; i < PIECES; i += 2)
        pages_free(&pages, pieces[i], MIB);
    pages.made_up_at = 0;
    pages.has_huge = true;
    CHECK_GE(pages_dirty_bytes(&pages), (PIECES / 2) * MIB);
    fresh[2] = take(&pages, FRESH, &zeroed);
    CHECK_GE(pages_dirty_bytes(&pages), (PIECES / 2) * MIB); // each is half a huge page
    CHECK_EQ(pages.made_up_at, 0);
    pages.has_huge = false;
    fresh[3] = take(&pages, FRESH, &zeroed);
    CHECK_EQ(pages_dirty_bytes(&pages), 0);
    pages_free(&pages, fresh[3], FRESH);
    for (int i = 1; i < PIECES; i += 2)
        pages_free(&pages, pieces[i], MIB);
    pages_free(&pages, fresh[2], FRESH);
    pages_free(&pages, fresh[1], FRESH);
    pages_free(&pages, fresh[0], FRESH);
    pages_free(&pages, live, LIVE);
    end(&pages);
}

// Chunks do not divide evenly, so among many dirty runs there is always a page that is not: it is no reason to give a MiB back.
static void nearly_all_dirty(void) {
    static uintptr_t runs[RUNS];
    size_t size = 28 * os_page_size();
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    options.dirty_decay_ms = DECAY_MS;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < RUNS; i++)
            runs[i] = take(&pages, size, &zeroed);
        for (int i = 0; i < RUNS; i++)
            pages_free(&pages, runs[i], size);
    }
    CHECK_SAY(pages.purged_bytes < RUNS * size, "%zu of %zu bytes purged, though all were used again and again",
              (size_t)pages.purged_bytes, RUNS * size);
    options.dirty_decay_ms = -1;
    end(&pages);
}

// Many free runs of which none is large enough: more memory is imported, they are not all looked at each time.
static void no_long_search(void) {
    enum { MANY = 4000, LATER = 400 };
    static uintptr_t small[MANY], large[LATER];
    size_t page = os_page_size();
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    for (int i = 0; i < MANY; i++)
        CHECK((small[i] = pages_alloc(&pages, 40 * page, 0, &zeroed)) != 0);
    for (int i = 0; i < MANY; i += 2)
        pages_free(&pages, small[i], 40 * page);
    pages.runs.searches = 0;
    for (int i = 0; i < LATER; i++)
        CHECK((large[i] = pages_alloc(&pages, 50 * page, 0, &zeroed)) != 0);
    CHECK_LT(pages.runs.searches / LATER, 200);
    for (int i = 0; i < LATER; i++)
        pages_free(&pages, large[i], 50 * page);
    for (int i = 1; i < MANY; i += 2)
        pages_free(&pages, small[i], 40 * page);
    end(&pages);
}

// Objects smaller than a chunk of which the program touches a page each: their chunks are never asked for as huge pages. Once they are
// written to all over, they are.
static void sparse_objects(void) {
    enum { OBJECT = 256 * 1024, OBJECTS = 320 };
    struct pages pages;
    uintptr_t objects[OBJECTS];
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = pages_alloc(&pages, OBJECT, 0, &zeroed)) != 0);
        if (i < OBJECTS / 2)
            *(char *)objects[i] = 1;
        else
            memset((void *)objects[i], 1, OBJECT);
        if (i == OBJECTS / 2)
            CHECK(!pages.has_huge && pages.objects.density == SPARSE && pages.objects.chunks > 8);
    }
    CHECK(pages.has_huge && pages.objects.density == DENSE);
    for (int i = 0; i < OBJECTS; i++)
        pages_free(&pages, objects[i], OBJECT);
    end(&pages);
    options.thp = THP_NEVER;
}

enum { LARGE_OBJECT = 10 * 1024 * 1024 };

// A large object of which nothing is known is not asked for.
static void first_large_object(bool wants_zeroes) {
    struct pages pages;
    uintptr_t object;
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    CHECK((object = pages_alloc(&pages, LARGE_OBJECT, 0, wants_zeroes ? &zeroed : NULL)) != 0);
    CHECK(!pages.has_huge);
    CHECK_EQ(pages.large_objects.at, object);
    pages_free(&pages, object, LARGE_OBJECT);
    end(&pages);
    options.thp = THP_NEVER;
}

// The first chunk of each tells about the next one, in any heap: after a dense one they may be sparse, as slapd's are, a stack for each thread.
static void large_objects_tell(bool wants_zeroes, bool then_dense) {
    enum { SLAB = 1024 * 1024, SLABS = 48 };
    struct pages pages;
    uintptr_t objects[5], slabs[SLABS];
    bool zeroed, *wanted = wants_zeroes ? &zeroed : NULL;

    pages_make(&pages);
    for (int i = 0; i < SLABS; i++) // a large heap, in small pages
        CHECK((slabs[i] = pages_alloc_dense(&pages, SLAB, 0, &zeroed)) != 0);
    options.thp = THP_DEFAULT;
    CHECK((objects[0] = pages_alloc(&pages, LARGE_OBJECT, 0, &zeroed)) != 0);
    CHECK((objects[1] = pages_alloc(&pages, LARGE_OBJECT, 0, wanted)) != 0);
    CHECK(!pages.has_huge && pages.large_objects.density == SPARSE);
    memset((void *)objects[1], 1, LARGE_OBJECT / 4);
    CHECK((objects[2] = pages_alloc(&pages, LARGE_OBJECT, 0, wanted)) != 0);
    CHECK(pages.has_huge && pages.large_objects.density == DENSE);
    CHECK_EQ(pages.large_objects.at, objects[2]); // one says little
    *(char *)(objects[2] + LARGE_OBJECT - 1) = 1; // as a stack is used
    CHECK_EQ(os_pages_resident((void *)(objects[2] + LARGE_OBJECT - CHUNK_BYTES), CHUNK_BYTES), os_page_size());
    CHECK((objects[3] = pages_alloc(&pages, LARGE_OBJECT, 0, wanted)) != 0);
    CHECK(pages.large_objects.density == DENSE && pages.large_objects.at == objects[2]); // what is not in use yet says nothing
    memset((void *)objects[2], 1, then_dense ? LARGE_OBJECT / 4 : 1000);
    CHECK((objects[4] = pages_alloc(&pages, LARGE_OBJECT, 0, wanted)) != 0);
    CHECK_EQ(pages.large_objects.density, then_dense ? DENSE : SPARSE);
    CHECK_EQ(pages.large_objects.at, then_dense ? 0 : objects[4]);
    for (int i = 0; i < 5; i++)
        pages_free(&pages, objects[i], LARGE_OBJECT);
    for (int i = 0; i < SLABS; i++)
        pages_free(&pages, slabs[i], SLAB);
    end(&pages);
    options.thp = THP_NEVER;
}

static void large_objects(void) {
    for (int wants_zeroes = 0; wants_zeroes < 2; wants_zeroes++) {
        first_large_object(wants_zeroes);
        large_objects_tell(wants_zeroes, true);
        large_objects_tell(wants_zeroes, false);
    }
}

// So does each of a few chunks, of 2 to 8 MiB, also where nothing but these makes the heap large, and beside larger ones that are hardly used: slapd's threads have
// one of each. Filled, they are asked for.
static void of_a_few_chunks(size_t size, bool beside_large) {
    enum { OBJECTS = 24, FILLED = 6 };
    struct pages pages;
    uintptr_t larges[OBJECTS], objects[OBJECTS + FILLED];
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    for (int i = 0; i < OBJECTS; i++) {
        if (beside_large) {
            CHECK((larges[i] = pages_alloc(&pages, LARGE_OBJECT, 0, &zeroed)) != 0);
            *(char *)larges[i] = 1;
        }
        CHECK((objects[i] = pages_alloc(&pages, size, 0, &zeroed)) != 0);
        *(char *)objects[i] = 1;
    }
    CHECK(pages_active_bytes(&pages) > 40 * 1024 * 1024 && !pages.has_huge && pages.objects.density == SPARSE);
    for (int i = OBJECTS; i < OBJECTS + FILLED; i++) {
        CHECK((objects[i] = pages_alloc(&pages, size, 0, &zeroed)) != 0);
        memset((void *)objects[i], 1, size);
    }
    CHECK(pages.has_huge);
    for (int i = 0; i < OBJECTS + FILLED; i++) {
        if (beside_large && i < OBJECTS)
            pages_free(&pages, larges[i], LARGE_OBJECT);
        pages_free(&pages, objects[i], size);
    }
    end(&pages);
    options.thp = THP_NEVER;
}

static void slabs_are_dense(void) {
    enum { SLAB = 64 * 1024, SLABS = 128 };
    struct pages pages;
    uintptr_t slabs[SLABS];
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    for (int i = 0; i < SLABS; i++)
        CHECK((slabs[i] = pages_alloc_dense(&pages, SLAB, 0, &zeroed)) != 0);
    CHECK(pages.has_huge);
    for (int i = 0; i < SLABS; i++)
        pages_free(&pages, slabs[i], SLAB);
    end(&pages);
    options.thp = THP_NEVER;
}

// A few pages that are unused in the first two chunks do not leave the third one to small pages.
static void nearly_full_chunks(void) {
    size_t slab = max_size(16 * 1024, os_page_size()), fills = 2 * CHUNK_BYTES / slab - 1; // two chunks, but for a page and what that leaves no room for
    uintptr_t page, slabs[256];
    struct pages pages;
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    CHECK((page = pages_alloc_dense(&pages, os_page_size(), 0, &zeroed)) != 0);
    for (size_t i = 0; i <= fills; i++) {
        CHECK(!pages.has_huge);
        CHECK((slabs[i] = pages_alloc_dense(&pages, slab, 0, &zeroed)) != 0);
    }
    CHECK(pages.has_huge);
    pages_free(&pages, page, os_page_size());
    for (size_t i = 0; i <= fills; i++)
        pages_free(&pages, slabs[i], slab);
    end(&pages);
    options.thp = THP_NEVER;
}

enum { SLOW_SLAB = 256 * 1024, SLABS_A_CHUNK = 8, SLOW_US = 12000 };

static void take_time(uint64_t us) {
    for (uint64_t from = os_clock_process_us(); os_clock_process_us() - from < us;)
        continue;
}

// A heap that grows slowly gets small pages until the unused part of a huge one is beyond notice.
static void slow_growth(void) {
    enum { SLABS = 176 };
    struct pages pages;
    uintptr_t slabs[SLABS];
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    for (int i = 0; i < SLABS; i++) {
        if (i % SLABS_A_CHUNK == 0)
            take_time(SLOW_US);
        CHECK((slabs[i] = pages_alloc_dense(&pages, SLOW_SLAB, 0, &zeroed)) != 0);
        CHECK_EQ(pages.has_huge, pages_active_bytes(&pages) > 40 * 1024 * 1024);
    }
    for (int i = 0; i < SLABS; i++)
        pages_free(&pages, slabs[i], SLOW_SLAB);
    end(&pages);
    options.thp = THP_NEVER;
}

// One chunk that is begun soon after another, as when a table is moved, does not make it a heap that grows fast; a second one does.
static void quick_chunks(void) {
    enum { CHUNKS = 6, SLABS = CHUNKS * SLABS_A_CHUNK, QUICK_FROM = 4 };
    struct pages pages;
    uintptr_t slabs[SLABS];
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    for (int i = 0; i < SLABS; i++) {
        if (i % SLABS_A_CHUNK == 0 && i / SLABS_A_CHUNK < QUICK_FROM)
            take_time(SLOW_US);
        CHECK((slabs[i] = pages_alloc_dense(&pages, SLOW_SLAB, 0, &zeroed)) != 0);
        CHECK_EQ(pages.has_huge, i / SLABS_A_CHUNK > QUICK_FROM);
    }
    for (int i = 0; i < SLABS; i++)
        pages_free(&pages, slabs[i], SLOW_SLAB);
    end(&pages);
    options.thp = THP_NEVER;
}

// Objects of many chunks in a small heap: a table may be hardly touched; what grew and was moved was filled.
static void large_in_small_heap(void) {
    enum { OBJECT = 10 * 1024 * 1024 };
    struct pages pages;
    uintptr_t objects[3];
    bool zeroed;

    pages_make(&pages);
    options.thp = THP_DEFAULT;
    CHECK((objects[0] = pages_alloc(&pages, OBJECT, 0, &zeroed)) != 0);
    CHECK((objects[1] = pages_alloc(&pages, OBJECT, 0, &zeroed)) != 0);
    CHECK(!pages.has_huge);
    CHECK((objects[2] = pages_alloc_grown(&pages, OBJECT, 0, &zeroed)) != 0);
    CHECK(pages.has_huge);
    for (int i = 0; i < 3; i++)
        pages_free(&pages, objects[i], OBJECT);
    end(&pages);
    options.thp = THP_NEVER;
}

// Who reads while another thread adds a chunk may find it among what is unused, and not yet in the sum.
static void read_in_between(void) {
    static struct pages pages;

    pages.runs.total_bytes = 2 << 20;
    pages.runs.bytes[VMEM_CLEAN] = 4 << 20;
    CHECK_EQ(pages_active_bytes(&pages), 0);
}

// What the system refused is no more than what is dirty: what comes to be dirty later is tried.
static void refused_before(void) {
    struct pages pages;
    uintptr_t runs[RUNS];
    size_t dirty;

    pages_make(&pages);
    options.dirty_decay_ms = DECAY_MS;
    take_many(&pages, runs);
    atomic_store(&pages.step_at, 1000);
    for (int i = 0; i < 2; i++)
        pages_free(&pages, runs[i], RUN);
    dirty = pages_dirty_bytes(&pages);
    CHECK_EQ(dirty, 2 * RUN);
    atomic_store(&pages.refused_bytes, dirty);
    CHECK_EQ(pages_garbage(&pages), 0);
    CHECK(pages_alloc(&pages, RUN, 0, NULL) != 0);
    pages_decay(&pages, 1000 + DECAY_MS / DECAY_STEPS); // all that is there may be wanted soon, as the heap grew: nothing goes
    CHECK_EQ(pages_dirty_bytes(&pages), dirty - RUN);
    pages_free(&pages, runs[2], RUN);
    CHECK_EQ(pages_garbage(&pages), dirty);
    pages_purge(&pages, 0);
    options.dirty_decay_ms = -1;
}

int main(void) {
    read_in_between();
    CHECK(heap_ready());
    options.background_thread = false;
    dirty_first();
    alignment();
    aligned_among_holes();
    purge_gives_back();
    resize_in_place();
    no_decay();
    proportion();
    proportion_of_growth();
    made_up();
    at_a_peak();
    nearly_all_dirty();
    no_long_search();
    decay_of_many_runs(1);
    decay_of_many_runs(73);
    decay_of_many_runs(777);
    decay_of_one_run();
    growth_is_awaited();
    locked_pages();
    all_locked();
    refused_before();
    large_in_few_calls();
    sparse_objects();
    large_objects();
    of_a_few_chunks(CHUNK_BYTES, false);
    of_a_few_chunks(3 * 1024 * 1024, false);
    of_a_few_chunks(3 * 1024 * 1024, true);
    slabs_are_dense();
    nearly_full_chunks();
    slow_growth();
    quick_chunks();
    large_in_small_heap();
    return 0;
}
