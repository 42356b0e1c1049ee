// Updates with a clock of the test's own: the working set of the depot, magazines that grow with visits, further with contention, and
// shrink when nobody comes, later each time, the empty slab, and the bound on the miss rate.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/update.h"

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

// Nothing of the library looks at the clock by itself: threads' misses do so every 500 ms only.
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

// How many quiet updates make magazines shrink.
static unsigned quiet_until_smaller(struct vmag_cache *cache, uint64_t *now) {
    unsigned rounds = cache->rounds, updates = 0;

    for (; cache->rounds == rounds; updates++)
        cache_update(cache, *now += 1000);
    CHECK_LT(cache->rounds, rounds);
    return updates;
}

static void grow(struct vmag_cache *cache, uint64_t *now, uint64_t *what, uint64_t by, unsigned most) {
    for (unsigned rounds = cache->rounds; rounds < most; rounds = cache->rounds) {
        *what += by;
        cache_update(cache, *now += 1000);
        CHECK_GT(cache->rounds, rounds);
    }
    *what += by;
    cache_update(cache, *now += 1000);
    CHECK_EQ(cache->rounds, most);
}

static void sizes_of_magazines(void) {
    struct vmag_cache *cache = create(64);
    uint64_t now = begin(cache);
    unsigned least = cache->rounds;

    grow(cache, &now, &cache->depot.puts, 3000, cache->most_rounds);
    CHECK_EQ(quiet_until_smaller(cache, &now), 8);
    grow(cache, &now, &cache->depot.puts, 3000, cache->most_rounds);
    CHECK_EQ(quiet_until_smaller(cache, &now), 16); // it had to grow again
    for (int i = 0; i < 20; i++) { // somebody was at the lock, once in a while
        cache->depot.contentions++;
        cache->depot.puts += 100;
        cache_update(cache, now += 2000);
        CHECK_EQ(cache->rounds, (cache->most_rounds - 4) / 2);
    }
    grow(cache, &now, &cache->depot.contentions, 2, cache->contended_rounds);
    CHECK_GT(cache->contended_rounds, 8 * cache->most_rounds);
    CHECK_EQ(quiet_until_smaller(cache, &now), 64);
    grow(cache, &now, &cache->depot.contentions, 2, cache->contended_rounds);
    CHECK_EQ(quiet_until_smaller(cache, &now), 128);
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

// At most one visit to the depot in M operations whatever the pattern, once the depot has magazines (2001, §3.1).
static void miss_rate(void) {
    struct vmag_cache *cache = create(64);
    struct random random = { 11 };
    size_t held = 0, operations = 0, before, visits;

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
    miss_rate();
    return 0;
}
