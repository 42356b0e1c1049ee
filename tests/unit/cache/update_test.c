// Updates with a clock of the test's own: the working set of the depot, magazines that grow with visits, further with contention, stay
// while fronts miss and shrink when nobody comes, the empty slab, and the bound on the miss rate.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/update.h"

#include <pthread.h>

#include "cache/cache.h"
#include "cache/front.h"
#include "cache/table.h"
#include "heap/heap.h"
#include "os/clock.h"
#include "unit.h"

enum { MOST = 20000 };

static void *objects[MOST];

static struct vmag_cache *create(size_t size) {
    struct cache_description wanted = { .name = "update", .size = size };

    CHECK(heap_ready());
    return cache_create(&wanted);
}

static void *get(struct vmag_cache *cache) {
    void *object = cache_front_pop(cache);

    return object != NULL ? object : cache_alloc(cache, VMAG_NOSLEEP);
}

static void put(struct vmag_cache *cache, void *object) {
    if (!cache_front_push(cache, object))
        cache_free(cache, object);
}

static void up_and_down(struct vmag_cache *cache, size_t count) {
    for (size_t i = 0; i < count; i++)
        objects[i] = get(cache);
    for (size_t i = 0; i < count; i++)
        put(cache, objects[i]);
}

static struct vmag_cache_stats stats_of(struct vmag_cache *cache) {
    struct vmag_cache_stats stats;

    cache_stats(cache, &stats);
    return stats;
}

// From now on the cache's time is the test's: what the library does by its own clock, at misses, is not due.
static uint64_t begin(struct vmag_cache *cache) {
    uint64_t now = os_clock_ms() + 1000000;

    cache_update(cache, now);
    return now;
}

// After a peak, what lies in the depot and was not needed in an interval goes back; what varies stays.
static void working_set(void) {
    struct vmag_cache *cache = create(64);
    uint64_t now = begin(cache);
    size_t peak, kept;

    up_and_down(cache, MOST);
    peak = stats_of(cache).full_magazines;
    CHECK_GT(peak, 40);
    cache_update(cache, now += 600); // the interval in which they came
    for (int i = 0; i < 5; i++) {
        for (size_t j = 0; j < 3; j++)
            up_and_down(cache, 1000);
        cache_update(cache, now += 600);
        kept = stats_of(cache).full_magazines;
    }
    say("working set: %zu magazines at the peak, %zu kept for a variation of 1000 objects", peak, kept);
    CHECK_LT(kept, peak / 4);
    CHECK_GE(kept * stats_of(cache).magazine_rounds, 500);
    CHECK_GT(stats_of(cache).slab_destroys, 0);
    cache_update(cache, now += 600);
    cache_update(cache, now += 600);
    CHECK_EQ(stats_of(cache).full_magazines, 0);
    CHECK_EQ(stats_of(cache).empty_magazines, 0);
    cache_front_flush(cache);
    cache_update(cache, now += 600);
    cache_update(cache, now += 600);
    cache_update(cache, now += 600);
    CHECK_EQ(stats_of(cache).slabs, 0);
    cache_destroy(cache, "test");
}

// What costs something to construct is kept for longer.
static int construct(void *object, void *argument, int flags) {
    (void)object, (void)argument, (void)flags;
    return 0;
}

static void constructed(void) {
    struct cache_description wanted = { .name = "constructed", .size = 64, .constructor = construct };
    struct vmag_cache *cache = cache_create(&wanted);
    uint64_t now = begin(cache);

    up_and_down(cache, MOST);
    for (int i = 0; i < 8; i++)
        cache_update(cache, now += 600);
    CHECK_GT(stats_of(cache).cached, MOST * 9 / 10);
    for (int i = 0; i < 20; i++)
        cache_update(cache, now += 600);
    CHECK_LT(stats_of(cache).cached, MOST / 10);
    cache_destroy(cache, "test");
}

static void look_often(struct vmag_cache *cache) {
    for (int i = 0; i < 16; i++)
        cache_note_look(cache);
}

static void grow_one(struct vmag_cache *cache, uint64_t *now, uint64_t *what, uint64_t by) {
    *what += by;
    look_often(cache);
    cache_update(cache, *now += 1000);
}

static void grow(struct vmag_cache *cache, uint64_t *now, uint64_t *what, uint64_t by, unsigned most) {
    for (unsigned rounds = cache->rounds; rounds < most; rounds = cache->rounds) {
        grow_one(cache, now, what, by);
        CHECK_GT(cache->rounds, rounds);
    }
    grow_one(cache, now, what, by);
    CHECK_EQ(cache->rounds, most);
}

// Updates that belong to nobody: one lets magazines shrink after eight periods, and so on down to the least.
static unsigned quiet_until_smaller(struct vmag_cache *cache, uint64_t *now) {
    unsigned rounds = cache->rounds, updates = 0;

    for (; cache->rounds == rounds; updates++)
        cache_update(cache, *now += 500);
    CHECK_LT(cache->rounds, rounds);
    return updates;
}

static void sizes_of_magazines(void) {
    struct vmag_cache *cache = create(64);
    uint64_t now = begin(cache);
    unsigned least = cache->rounds;

    grow(cache, &now, &cache->depot.puts, 3000, cache->most_rounds);
    CHECK_EQ(quiet_until_smaller(cache, &now), 8);
    now += 20000;
    grow(cache, &now, &cache->depot.contentions, 5, cache->contended_rounds);
    CHECK_GT(cache->contended_rounds, 8 * cache->most_rounds);
    for (int i = 0; i < 20000; i++) { // a load of hours that visits the depot no more: fronts miss, by which they look
        cache_note_look(cache);
        cache_update(cache, now += 500);
        CHECK_EQ(cache->rounds, cache->contended_rounds);
    }
    CHECK_EQ(quiet_until_smaller(cache, &now), 8);
    for (int i = 0; i < 20; i++) { // somebody was at the lock, once in a while
        unsigned rounds = cache->rounds;

        cache->depot.contentions++;
        grow_one(cache, &now, &cache->depot.puts, 0);
        cache_update(cache, now += 1000);
        CHECK_EQ(cache->rounds, rounds);
    }
    while (cache->rounds > least)
        quiet_until_smaller(cache, &now);
    for (int i = 0; i < 300; i++)
        cache_update(cache, now += 1000);
    CHECK_EQ(cache->rounds, least);
    up_and_down(cache, MOST); // hundreds of visits in a tenth of a second
    cache_update(cache, now += 600);
    CHECK_GT(cache->rounds, least);
    CHECK_GT(stats_of(cache).magazine_resizes, 8);
    cache_destroy(cache, "test");
}

// A thread that comes to the depot, each time it is told to.
static struct visitor {
    pthread_t thread;
    struct vmag_cache *cache;
    _Atomic int told, done;
} visitor;

static void *visit(void *unused) {
    for (int turn = 1; turn > 0; turn++) {
        while (visitor.told < turn)
            sched_yield();
        if (visitor.cache == NULL)
            return unused;
        put(visitor.cache, get(visitor.cache));
        cache_front_flush(visitor.cache);
        visitor.done = turn;
    }
    return unused;
}

// It finds the lock taken.
static void meet(struct vmag_cache *cache) {
    look_often(cache);
    mutex_lock(&cache->depot.lock);
    visitor.told++;
    while (atomic_load(&cache->depot.lock.word) != 2)
        sched_yield();
    mutex_unlock(&cache->depot.lock);
    while (visitor.done < visitor.told)
        sched_yield();
}

// Two meetings within two seconds are a step, five of a size that has served for a while, whatever else happens; so the largest size
// is found after a bounded number of them (2001, §3.4). One in two seconds is none.
static void meetings(size_t size) {
    struct vmag_cache *cache = create(size);
    uint64_t now = begin(cache);
    unsigned steps = 0;

    visitor = (struct visitor){ .cache = cache };
    CHECK_EQ(pthread_create(&visitor.thread, NULL, visit, NULL), 0);
    for (unsigned rounds = cache->rounds; rounds < cache->contended_rounds; rounds = cache->rounds, steps++) {
        unsigned more = steps < 2 ? 4 : 1;

        meet(cache);
        cache_update(cache, now += steps < 2 ? 10000 : 2000);
        CHECK_EQ(cache->rounds, rounds);
        while (more-- > 1) {
            meet(cache);
            cache_update(cache, now += 200);
            CHECK_EQ(cache->rounds, rounds);
        }
        meet(cache);
        cache_update(cache, now += 200);
        CHECK_GT(cache->rounds, rounds);
    }
    say("meetings: %u steps to %u rounds of %zu bytes", steps, cache->rounds, size);
    CHECK_LE(steps, 10);
    meet(cache), meet(cache), meet(cache), meet(cache), meet(cache);
    cache_update(cache, now += 200);
    CHECK_EQ(cache->rounds, cache->contended_rounds);
    visitor.cache = NULL;
    visitor.told++;
    pthread_join(visitor.thread, NULL);
    cache_destroy(cache, "test");
}

static size_t visits_of(struct vmag_cache *cache) {
    return stats_of(cache).depot_takes + stats_of(cache).depot_puts;
}

// Runs of allocations and of frees; returns the operations.
static size_t wander(struct vmag_cache *cache, struct random *random, size_t *held) {
    size_t operations = 0;

    for (size_t i = 0; i < 1000; i++)
        for (size_t run = random_below(random, 500), up = random_below(random, 2); run > 0; run--, operations++)
            if (up && *held < 4000)
                objects[(*held)++] = get(cache);
            else if (!up && *held > 0)
                put(cache, objects[--*held]);
            else
                break;
    return operations;
}

// What is smaller than wanted is gone once it has been empty: the size that was found is the size that serves.
static void outgrown(void) {
    struct vmag_cache *cache = create(64);
    struct random random = { 13 };
    size_t held = 0, before, operations;

    begin(cache);
    up_and_down(cache, 10000);
    wander(cache, &random, &held);
    CHECK_GT(stats_of(cache).full_magazines, 300);
    CHECK_EQ(cache->rounds, 12);
    cache->rounds = 2044;
    wander(cache, &random, &held);
    before = visits_of(cache);
    operations = wander(cache, &random, &held);
    say("outgrown: %zu visits of the depot in %zu operations, M = 2044, magazines of 12 before", visits_of(cache) - before, operations);
    CHECK_LE((visits_of(cache) - before) * 4 * 2044, operations); // a level that varies by 4000 fits the two at hand
    while (held > 0)
        put(cache, objects[--held]);
    cache_destroy(cache, "test");
}

// At most one visit to the depot in M operations whatever the pattern, once the depot has magazines (2001, §3.1).
static void miss_rate(void) {
    struct vmag_cache *cache = create(64);
    struct random random = { 11 };
    size_t held = 0, operations = 0, before, visits;

    begin(cache);
    up_and_down(cache, 10000);
    before = stats_of(cache).depot_takes + stats_of(cache).depot_puts;
    for (size_t i = 0; i < 200000; i++) { // two up, two down, forever
        objects[0] = get(cache), objects[1] = get(cache);
        put(cache, objects[0]), put(cache, objects[1]);
        operations += 4;
    }
    for (size_t i = 0; i < 4000; i++)
        for (size_t run = random_below(&random, 600), up = random_below(&random, 2); run > 0; run--) {
            if (up && held < 8000)
                objects[held++] = get(cache);
            else if (!up && held > 0)
                put(cache, objects[--held]);
            else
                break;
            operations++;
        }
    visits = stats_of(cache).depot_takes + stats_of(cache).depot_puts - before;
    say("miss rate: %zu visits of the depot in %zu operations, M = %u", visits, operations, cache->least_rounds);
    CHECK_LE(visits * cache->least_rounds, operations);
    while (held > 0)
        put(cache, objects[--held]);
    cache_destroy(cache, "test");
}

int main(void) {
    working_set();
    constructed();
    sizes_of_magazines();
    meetings(64);
    meetings(2048);
    outgrown();
    miss_rate();
    return 0;
}
