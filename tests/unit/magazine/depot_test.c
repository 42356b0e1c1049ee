// Tests magazine/depot.h: exchange of full and empty magazines, the count of rounds, and the working set (2001, §3.7).
// SPDX-License-Identifier: BSD-2-Clause
#include "magazine/depot.h"

#include <pthread.h>

#include "cache/cache.h"
#include "heap/arena.h"
#include "heap/heap.h"
#include "magazine/processors.h"
#include "unit.h"

enum { WORD = 0xc8a1, CAPACITY = 12 };

static struct magazine *magazine_with(unsigned rounds) {
    struct magazine *magazine = magazine_create(CAPACITY, WORD);

    CHECK(magazine != NULL);
    magazine->rounds = rounds;
    return magazine;
}

static size_t destroy_chain(struct magazine *chain) {
    struct magazine *next;
    size_t count = 0;

    for (; chain != NULL; chain = next, count++) {
        next = chain->next;
        magazine_destroy(chain);
    }
    return count;
}

static void exchange(void) {
    struct depot depot = {0};
    struct magazine *empty = magazine_with(0), *full = magazine_with(CAPACITY), *part = magazine_with(5);

    depot_init(&depot);
    CHECK(depot_take_full(&depot, NULL, NULL) == NULL);
    CHECK(depot_take_full(&depot, empty, NULL) == NULL); // and the empty one was not taken:
    CHECK_EQ(depot.empty.length, 0);
    CHECK(depot_take_empty(&depot, full, NULL) == NULL);
    CHECK_EQ(depot.rounds, CAPACITY);
    depot_put(&depot, part, NULL);
    CHECK_EQ(depot.rounds, CAPACITY + 5);
    CHECK_EQ(depot.full.length, 2);
    CHECK(depot_take_full(&depot, empty, NULL) == part); // the one that was left last
    CHECK_EQ(depot.empty.length, 1);
    CHECK(depot_take_empty(&depot, part, NULL) == empty);
    CHECK_EQ(depot.rounds, CAPACITY + 5);
    CHECK(depot_take_full(&depot, NULL, NULL) == part && depot_take_full(&depot, NULL, NULL) == full);
    CHECK(depot_take_full(&depot, NULL, NULL) == NULL);
    CHECK_EQ(depot.rounds, 0);
    CHECK(depot_put_first(&depot, part, NULL)); // where there is none with rounds
    CHECK(!depot_put_first(&depot, full, NULL) && depot.full.length == 1 && depot.rounds == 5);
    CHECK(depot_take_full(&depot, NULL, NULL) == part && depot.rounds == 0);
    depot_put(&depot, empty, NULL); // empty ones go to the empty list
    CHECK(depot.empty.length == 1 && depot.full.length == 0);
    CHECK(depot_reap(&depot, true, NULL) == empty);
    magazine_destroy(empty);
    magazine_destroy(full);
    magazine_destroy(part);
}

static void put_full(struct depot *depot, unsigned count) {
    while (count-- > 0)
        depot_put(depot, magazine_with(CAPACITY), NULL);
}

static void take_full(struct depot *depot, unsigned count) {
    while (count-- > 0)
        magazine_destroy(depot_take_full(depot, NULL, NULL));
}

// "If the number of full magazines varied from 37 to 47, the working set is 10; the other 37 are eligible for reaping."
static void working_set(void) {
    struct depot depot = {0};

    depot_init(&depot);
    put_full(&depot, 42);
    CHECK_EQ(destroy_chain(depot_reap(&depot, false, NULL)), 0); // came within this interval: not yet known to be superfluous
    put_full(&depot, 5);                              // 47
    take_full(&depot, 10);                            // 37
    put_full(&depot, 8);                              // 45
    take_full(&depot, 6);                             // 39
    CHECK_EQ(destroy_chain(depot_reap(&depot, false, NULL)), 37);
    CHECK_EQ(depot.full.length, 2);
    CHECK_EQ(depot.rounds, 2 * CAPACITY);
    // A new interval: nothing moved, so nothing was needed.
    CHECK_EQ(destroy_chain(depot_reap(&depot, false, NULL)), 2);
    CHECK_EQ(destroy_chain(depot_reap(&depot, false, NULL)), 0);
    CHECK_EQ(depot.rounds, 0);
}

// The empty list has a working set of its own; the two are reaped in one chain.
static void working_set_of_empties(void) {
    struct depot depot = {0};
    struct magazine *taken[6];

    depot_init(&depot);
    for (int i = 0; i < 20; i++)
        depot_put(&depot, magazine_with(0), NULL);
    put_full(&depot, 3);
    CHECK(depot_reap(&depot, false, NULL) == NULL);
    for (int i = 0; i < 6; i++) // full goes in, empty comes out
        CHECK((taken[i] = depot_take_empty(&depot, magazine_with(CAPACITY), NULL)) != NULL);
    for (int i = 0; i < 6; i++)
        magazine_destroy(depot_take_full(&depot, taken[i], NULL));
    CHECK_EQ(destroy_chain(depot_reap(&depot, false, NULL)), 14 + 3);
    CHECK_EQ(depot.empty.length, 6);
    CHECK_EQ(depot.full.length, 0);
    CHECK_EQ(destroy_chain(depot_reap(&depot, true, NULL)), 6);
}

// What goes is what was left longest ago: its lines are cold.
static void oldest_go_first(void) {
    struct depot depot = {0};
    struct magazine *kept[3];

    depot_init(&depot);
    put_full(&depot, 4);
    CHECK(depot_reap(&depot, false, NULL) == NULL);
    for (int i = 0; i < 3; i++)
        depot_put(&depot, kept[i] = magazine_with(CAPACITY), NULL);
    CHECK_EQ(destroy_chain(depot_reap(&depot, false, NULL)), 4);
    for (int i = 2; i >= 0; i--)
        CHECK(depot_take_full(&depot, NULL, NULL) == kept[i]);
    for (int i = 0; i < 3; i++)
        magazine_destroy(kept[i]);
}

// Random steps against counts of our own.
static void random_run(void) {
    struct random random = { 37 };
    struct depot depot = {0};
    size_t full = 0, empty = 0, rounds = 0, least_full = 0, least_empty = 0;

    depot_init(&depot);
    for (int i = 0; i < 100000; i++) {
        size_t action = random_below(&random, 1000);

        if (action < 300) {
            struct magazine *magazine = magazine_with((unsigned)random_below(&random, CAPACITY + 1));

            full += magazine->rounds > 0;
            empty += magazine->rounds == 0;
            rounds += magazine->rounds;
            depot_put(&depot, magazine, NULL);
        } else if (action < 650) {
            struct magazine *magazine = depot_take_full(&depot, NULL, NULL);

            CHECK_EQ(magazine != NULL, full > 0);
            if (magazine == NULL)
                continue;
            full--;
            rounds -= magazine->rounds;
            magazine_destroy(magazine);
        } else if (action < 990) {
            struct magazine *magazine = depot_take_empty(&depot, magazine_with(1), NULL);

            CHECK_EQ(magazine != NULL, empty > 0);
            full++;
            rounds++;
            if (magazine == NULL)
                continue;
            CHECK_EQ(magazine->rounds, 0);
            empty--;
            magazine_destroy(magazine);
        } else {
            struct magazine *chain = depot_reap(&depot, action == 999, NULL);
            size_t full_reaped = action == 999 ? full : least_full, empty_reaped = action == 999 ? empty : least_empty;

            for (const struct magazine *m = chain; m != NULL; m = m->next)
                rounds -= m->rounds;
            CHECK_EQ(destroy_chain(chain), full_reaped + empty_reaped);
            least_full = full -= full_reaped;
            least_empty = empty -= empty_reaped;
        }
        least_full = full < least_full ? full : least_full;
        least_empty = empty < least_empty ? empty : least_empty;
        CHECK(depot.full.length == full && depot.empty.length == empty && depot.rounds == rounds);
    }
    destroy_chain(depot_reap(&depot, true, NULL));
}

static struct depot shared;

static void *swap_magazines(void *ignored) {
    (void)ignored;
    for (int i = 0; i < 100000; i++) {
        struct magazine *full = depot_take_full(&shared, NULL, NULL);

        if (full == NULL)
            continue;
        full->round[full->rounds - 1] = (void *)((uintptr_t)full->round[full->rounds - 1] + 1); // ours alone, or a count is lost
        struct magazine *empty = depot_take_empty(&shared, full, NULL);
        if (empty != NULL)
            depot_put(&shared, empty, NULL);
    }
    return NULL;
}

static void threads(void) {
    enum { THREADS = 4, MAGAZINES = 3 };
    pthread_t ids[THREADS];
    size_t count = 0;

    depot_init(&shared);
    for (int i = 0; i < MAGAZINES; i++) {
        struct magazine *magazine = magazine_with(1);

        magazine->round[0] = NULL;
        depot_put(&shared, magazine, NULL);
        depot_put(&shared, magazine_with(0), NULL);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&ids[i], NULL, swap_magazines, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    CHECK(shared.full.length == MAGAZINES && shared.empty.length == MAGAZINES && shared.rounds == MAGAZINES);
    for (struct magazine *m = shared.full.first; m != NULL; m = m->next)
        count += (size_t)m->round[0];
    say("%zu exchanges by %d threads", count, THREADS);
    CHECK_LE(count, THREADS * 100000);
    CHECK_GT(count, 100000 / 2);
    destroy_chain(depot_reap(&shared, true, NULL));
}

// What two processors write lies on lines of its own (2001, §3.6).
static void lines(void) {
    CHECK_EQ(_Alignof(struct depot) % CACHE_LINE, 0);
    CHECK_EQ(_Alignof(struct processor) % CACHE_LINE, 0);
    CHECK_EQ(offsetof(struct vmag_cache, depot) % CACHE_LINE, 0);
    CHECK_EQ(offsetof(struct vmag_cache, bin) % CACHE_LINE, 0);
    CHECK_EQ(offsetof(struct arena, depots[1]) % CACHE_LINE, 0);
}

int main(void) {
    CHECK(heap_ready());
    lines();
    exchange();
    working_set();
    working_set_of_empties();
    oldest_go_first();
    random_run();
    threads();
    return 0;
}
