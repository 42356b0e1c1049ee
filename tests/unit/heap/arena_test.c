// Tests heap/arena.h: threads get the least used arena, what an arena gave returns to it, and the depots' bytes are counted.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/arena.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/base.h"
#include "conf/options.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "unit.h"

enum { ARENAS = 4, THREADS = 11 };

// A thread that allocates once, says so, and lives until it is told to end.
struct sleeper {
    pthread_t id;
    sem_t ready, leave;
    unsigned arena;
};

static void *sleep_with_a_front(void *argument) {
    struct sleeper *sleeper = argument;

    free(malloc(24));
    sleeper->arena = words.front->arena->id;
    sem_post(&sleeper->ready);
    while (sem_wait(&sleeper->leave) != 0)
        continue;
    return NULL;
}

static void sleeper_start(struct sleeper *sleeper) {
    sem_init(&sleeper->ready, 0, 0);
    sem_init(&sleeper->leave, 0, 0);
    CHECK_EQ(pthread_create(&sleeper->id, NULL, sleep_with_a_front, sleeper), 0);
    while (sem_wait(&sleeper->ready) != 0)
        continue;
}

static void sleeper_end(struct sleeper *sleeper) {
    sem_post(&sleeper->leave);
    pthread_join(sleeper->id, NULL);
}

static unsigned threads_of(unsigned arena) {
    return arena_of(arena)->threads;
}

static void check_even(unsigned threads) {
    unsigned sum = 0;

    for (unsigned i = 0; i < ARENAS; i++) {
        CHECK_GE(threads_of(i), threads / ARENAS);
        CHECK_LE(threads_of(i), (threads + ARENAS - 1) / ARENAS);
        sum += threads_of(i);
    }
    CHECK_EQ(sum, threads);
}

static void least_used_first(void) {
    static struct sleeper sleepers[THREADS + 3];
    unsigned arena;

    for (unsigned i = 0; i < THREADS; i++) {
        sleeper_start(&sleepers[i]);
        CHECK_EQ(arenas_live(), i + 2 < ARENAS ? i + 2 : ARENAS);
        if (i + 2 >= ARENAS)
            check_even(i + 2); // this thread counts too
    }
    CHECK(arena_of(ARENAS) == NULL && arena_of(ARENAS_MOST) == NULL && arena_of(100000) == NULL);
    // All the threads of one arena end: the next ones go there.
    arena = sleepers[0].arena;
    CHECK_NE(arena, 0);
    for (unsigned i = 0; i < THREADS; i++)
        if (sleepers[i].arena == arena)
            sleeper_end(&sleepers[i]);
    CHECK_EQ(threads_of(arena), 0);
    for (unsigned i = THREADS; i < THREADS + 3; i++) {
        sleeper_start(&sleepers[i]);
        CHECK_EQ(sleepers[i].arena, arena);
    }
    check_even(THREADS + 1);
    for (unsigned i = 0; i < THREADS + 3; i++)
        if (i >= THREADS || sleepers[i].arena != arena)
            sleeper_end(&sleepers[i]);
    CHECK_EQ(threads_of(0), 1);
    for (unsigned i = 1; i < ARENAS; i++)
        CHECK_EQ(threads_of(i), 0);
}

// Objects of every class, slabs and page runs alike, taken from one arena and given back by way of another.
static void objects_return_home(void) {
    struct arena *owner = arena_of(1), *other = arena_of(2);

    for (unsigned class = 1; class < CLASSES; class++) {
        void *rounds[32];
        size_t got = arena_fill(owner, class, rounds, 32);

        CHECK_GT(got, 0);
        for (size_t i = 32 - got; i < 32; i++) {
            CHECK_EQ(page_map_word(rounds[i]), arena_word(1, class));
            memset(rounds[i], 1, class_size(class));
        }
        arena_drain(other, class, rounds + 32 - got, got, "free");
        if (class < SLAB_CLASSES) {
            CHECK_EQ(owner->bins[class].filled, owner->bins[class].drained);
            CHECK_EQ(other->bins[class].drained, other->bins[class].filled);
            bin_check(&owner->bins[class]);
        }
    }
}

// Nobody holds anything of these arenas any more: not even the one empty slab of each class stays.
static void everything_goes_back(void) {
    reclaim_everything();
    for (unsigned i = 1; i < ARENAS; i++) {
        CHECK_EQ(pages_active_bytes(&arena_of(i)->pages), 0);
        CHECK_EQ(pages_dirty_bytes(&arena_of(i)->pages), 0);
    }
}

static struct magazine *full_magazine(struct arena *arena, unsigned class, unsigned rounds) {
    struct magazine *magazine = magazine_create(rounds, arena_word(arena->id, class));

    while (magazine->rounds < rounds)
        CHECK_EQ(arena_fill(arena, class, &magazine->round[magazine->rounds++], 1), 1);
    return magazine;
}

static void depot_bytes(void) {
    struct arena *arena = arena_of(3);
    unsigned class = size_class(640);
    struct magazine *magazine;

    options.depot_bytes = 100 * 640 * arenas_live(); // an arena has its share
    magazine = full_magazine(arena, class, 40);
    size_t before = pages_active_bytes(&arena->pages);
    CHECK(!arena_depot_is_full(arena, class, 12, false)); // an eighth until somebody came for rounds
    CHECK(arena_depot_is_full(arena, class, 13 + before / 16 / 640, false));
    CHECK(!arena_depot_is_full(arena, class, 13 + before / 16 / 640, true));
    arena_put(arena, class, magazine);
    CHECK(arena_exchange_empty(arena, class, NULL) == magazine);
    CHECK(!arena_depot_is_full(arena, class, 40, false));
    arena_put(arena, class, magazine);
    CHECK_EQ(arena_depot_bytes(arena), 40 * 640);
    CHECK(arena_exchange_full(arena, class, full_magazine(arena, class, 50)) == NULL);
    CHECK_EQ(arena_depot_bytes(arena), 90 * 640);
    size_t more = pages_active_bytes(&arena->pages); // a share of the heap may be held beyond the option
    CHECK(!arena_depot_is_full(arena, class, 10, false));
    CHECK(arena_depot_is_full(arena, class, 11 + more / 640, false));
    CHECK(!arena_depot_is_full(arena, class, 11 + more / 640, true)); // scattered rounds count as what their magazines take
    CHECK(arena_depot_is_full(arena, class, (options.depot_bytes / arenas_live() + more) / sizeof(void *), true));
    magazine = arena_exchange_empty(arena, class, NULL);
    CHECK_EQ(magazine->rounds, 50);
    CHECK_EQ(arena_depot_bytes(arena), 40 * 640);
    arena_put(arena, class, magazine);
    CHECK(arena_reap(arena, true));
    CHECK(!arena_reap(arena, true));
    CHECK_EQ(arena_depot_bytes(arena), 0);
    CHECK_EQ(arena->bins[class].filled, arena->bins[class].drained);
}

// After a rest what came before it counts no more.
static bool is_full_after_rest(struct arena *arena, unsigned class, size_t rounds) {
    enum { REST_MS = 300 };

    usleep(REST_MS * 1000);
    arena_depot_is_full(arena, class, rounds, false); // finds what came last before the rest
    usleep(REST_MS * 1000);
    return arena_depot_is_full(arena, class, rounds, false);
}

// Rounds that lie together: half a MiB, and as much as comes within two milliseconds, unless another program had the processor then.
static void what_passes(void) {
    enum { MIB = 1 << 20, PATIENCE_MS = 60000 };
    struct arena *arena = arena_of(3);
    unsigned class = size_class(640);
    size_t rounds = MIB / 640, share;

    options.depot_bytes = 64 * MIB * arenas_live();
    share = 64 * MIB + pages_active_bytes(&arena->pages) / 16;
    CHECK(!arena_depot_is_full(arena, class, MIB / 4 / 640, false));
    CHECK(is_full_after_rest(arena, class, rounds));
    CHECK(!arena_depot_is_full(arena, class, rounds, true)); // scattered: 13 KiB of slots
    for (uint64_t begin = os_clock_ms(); arena_depot_is_full(arena, class, rounds, false);)
        CHECK_LT(os_clock_ms() - begin, PATIENCE_MS);
    CHECK(arena_depot_is_full(arena, class, share / 640 + 1, false)); // the option is the most
    CHECK(is_full_after_rest(arena, class, rounds));
    options.depot_bytes = 0;
    CHECK(arena_depot_is_full(arena, class, rounds, false));
}

// What one interval did not need goes at its end, in the slabs' pages as well.
static void reap_by_interval(void) {
    struct arena *arena = arena_of(2);
    unsigned class = size_class(640);

    arena_reap(arena, false);
    for (int i = 0; i < 3; i++)
        arena_put(arena, class, full_magazine(arena, class, 12));
    CHECK(!arena_reap(arena, false)); // they came in this interval
    CHECK_EQ(arena_depot_bytes(arena), 36 * 640);
    CHECK(arena_reap(arena, false));
    CHECK_EQ(arena_depot_bytes(arena), 0);
    CHECK_EQ(arena->bins[class].filled, arena->bins[class].drained);
    arena_reap(arena, true);
}

enum { RACERS = 2, RACES = 200 };

static pthread_barrier_t all_ready;

static void *make_the_same(void *unused) {
    free(malloc(24)); // its front is not what is counted
    pthread_barrier_wait(&all_ready);
    for (unsigned i = 0; i < RACES; i++) {
        pthread_barrier_wait(&all_ready);
        CHECK(arena_make_automatic(ARENAS + i) == arena_of(ARENAS + i));
    }
    return unused;
}

static void racers_leave_one(void) {
    size_t before, bytes = round_up(sizeof(struct arena), os_page_size());
    pthread_t racers[RACERS];

    pthread_barrier_init(&all_ready, NULL, RACERS + 1);
    for (int i = 0; i < RACERS; i++)
        CHECK_EQ(pthread_create(&racers[i], NULL, make_the_same, NULL), 0);
    pthread_barrier_wait(&all_ready);
    before = base_bytes();
    for (int i = 0; i < RACES; i++)
        pthread_barrier_wait(&all_ready);
    for (int i = 0; i < RACERS; i++)
        pthread_join(racers[i], NULL);
    CHECK_EQ(base_bytes() - before, RACES * bytes);
}

int main(void) {
    CHECK(heap_ready());
    options.narenas = ARENAS;
    options.background_thread = false;
    free(malloc(24));
    CHECK_EQ(arenas_live(), 1);
    least_used_first();
    for (unsigned i = 1; i < ARENAS; i++)
        arena_reap(arena_of(i), true);
    objects_return_home();
    depot_bytes();
    what_passes();
    reap_by_interval();
    everything_goes_back();
    racers_leave_one();
    return 0;
}
