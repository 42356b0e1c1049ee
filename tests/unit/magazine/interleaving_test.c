// Tests the depot's protocol in every interleaving: logical threads exchange, hand over and reap magazines, a real depot
// function an atomic step, all orders of their steps by depth-first search.
//
// The lock makes each depot function one step, so the orders of whole calls are all the orders there are. What lies between
// the calls of one thread (counting bytes, draining rounds, destroying) belongs to that thread alone or is a step of its own,
// as in heap/arena.c: bytes are counted before a magazine is put and after it was taken, so the count never falls short.
// Checked after every step: each magazine is in one place, each round is in one place, rounds and counts agree.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/heap.h"
#include "magazine/depot.h"
#include "unit.h"

enum { WORD = 0xc8a1, CAPACITY = 2, MAGAZINES_MOST = 8, ROUNDS_MOST = MAGAZINES_MOST * CAPACITY, THREADS_MOST = 3 };

static struct choices choices;

static struct magazine *magazines[MAGAZINES_MOST]; // all that there are
static unsigned magazine_count;

static struct world {
    struct depot depot;
    size_t counted;            // what the arena believes the depot holds, in rounds
    unsigned drained, created; // rounds that went back to slabs, rounds that came from them
    bool destroyed[MAGAZINES_MOST];
} world;

// A logical thread: a list of steps, where it is in it, and the magazines that it holds.
struct thread {
    void (*const *script)(struct thread *);
    unsigned at, steps;
    struct magazine *loaded, *previous, *moving, *chain;
};

static struct thread threads[THREADS_MOST];
static unsigned thread_count;

static unsigned number_of(const struct magazine *magazine) {
    for (unsigned i = 0; i < magazine_count; i++)
        if (magazines[i] == magazine)
            return i;
    CHECK(!"a magazine that nobody made");
}

// ---- steps: of a thread that needs a full magazine, has a full one to give, or reaps

static void drain_rounds(struct magazine *magazine) {
    world.drained += magazine->rounds;
    magazine_clear(magazine, WORD);
}

static void take_full(struct thread *thread) {
    struct magazine *full = depot_take_full(&world.depot, thread->previous, NULL);

    thread->moving = full;
    if (full == NULL)
        return;
    thread->previous = thread->loaded;
    thread->loaded = full;
}

static void count_taken(struct thread *thread) {
    if (thread->moving != NULL)
        world.counted -= thread->moving->rounds;
    thread->moving = NULL;
}

static void use_up(struct thread *thread) {
    if (thread->loaded != NULL)
        drain_rounds(thread->loaded);
}

static void fill_up(struct thread *thread) {
    struct magazine *magazine = thread->loaded;

    while (magazine != NULL && magazine->rounds < CAPACITY) {
        world.created++;
        magazine->round[magazine->rounds++] = (void *)(uintptr_t)(0x1000 + world.created);
    }
}

static void count_given(struct thread *thread) {
    if (thread->loaded != NULL)
        world.counted += thread->loaded->rounds;
}

static void take_empty(struct thread *thread) {
    if (thread->loaded == NULL || thread->loaded->rounds == 0)
        return;
    thread->loaded = depot_take_empty(&world.depot, thread->loaded, NULL);
    CHECK(thread->loaded == NULL || thread->loaded->rounds == 0);
}

// The outbound magazine of another arena's thread: handed over whole, and nothing comes back.
static void hand_over(struct thread *thread) {
    if (thread->loaded != NULL)
        depot_put(&world.depot, thread->loaded, NULL);
    thread->loaded = NULL;
}

static void reap_unneeded(struct thread *thread) {
    thread->chain = depot_reap(&world.depot, false, NULL);
}

static void reap_all(struct thread *thread) {
    thread->chain = depot_reap(&world.depot, true, NULL);
}

static void drain_chain(struct thread *thread) {
    struct magazine *next;

    for (; thread->chain != NULL; thread->chain = next) {
        next = thread->chain->next;
        world.counted -= thread->chain->rounds;
        drain_rounds(thread->chain);
        world.destroyed[number_of(thread->chain)] = true;
    }
}

// ---- what must hold between any two steps

static unsigned seen[MAGAZINES_MOST];
static bool round_seen[2 * ROUNDS_MOST];

static unsigned see_rounds(const struct magazine *magazine) {
    for (unsigned i = 0; i < magazine->rounds; i++) {
        size_t round = (uintptr_t)magazine->round[i] - 0x1000;

        CHECK(round > 0 && round <= world.created && !round_seen[round]);
        round_seen[round] = true;
    }
    return magazine->rounds;
}

static unsigned see(const struct magazine *magazine) {
    if (magazine == NULL)
        return 0;
    seen[number_of(magazine)]++;
    return see_rounds(magazine);
}

static unsigned see_list(const struct magazine_list *list, bool full) {
    unsigned rounds = 0;
    uint32_t length = 0;

    for (const struct magazine *at = list->first; at != NULL; at = at->next, length++) {
        CHECK((at->rounds > 0) == full);
        rounds += see(at);
        CHECK_LE(length, magazine_count); // no ring
    }
    CHECK_EQ(length, list->length);
    CHECK_LE(list->least, list->length);
    return rounds;
}

static void check_world(bool at_rest) {
    memset(seen, 0, sizeof seen);
    memset(round_seen, 0, sizeof round_seen);
    unsigned in_depot = see_list(&world.depot.full, true) + see_list(&world.depot.empty, false), held = 0;

    CHECK_EQ(in_depot, world.depot.rounds);
    for (unsigned i = 0; i < thread_count; i++) {
        held += see(threads[i].loaded) + see(threads[i].previous);
        for (const struct magazine *at = threads[i].chain; at != NULL; at = at->next)
            held += see(at);
    }
    for (unsigned i = 0; i < magazine_count; i++)
        CHECK_EQ(seen[i] + world.destroyed[i], 1); // neither lost nor doubled
    CHECK_EQ(in_depot + held + world.drained, world.created);
    CHECK_GE(world.counted, in_depot);
    if (at_rest)
        CHECK_EQ(world.counted, in_depot);
}

// ---- running

static struct magazine *magazine_again(unsigned rounds) {
    struct magazine *magazine = magazines[magazine_count++];

    magazine_clear(magazine, WORD);
    magazine->next = NULL;
    for (; rounds > 0; rounds--)
        magazine->round[magazine->rounds++] = (void *)(uintptr_t)(0x1000 + ++world.created);
    return magazine;
}

typedef void script(struct thread *);

static script *const refill[] = { take_full, count_taken, use_up, take_full, count_taken, NULL };
static script *const refill_once[] = { take_full, count_taken, use_up, NULL };
static script *const make_room[] = { count_given, take_empty, fill_up, count_given, take_empty, NULL };
static script *const make_room_once[] = { count_given, take_empty, fill_up, NULL };
static script *const outbound[] = { count_given, hand_over, NULL };
static script *const outbound_exchange[] = { count_given, take_empty, fill_up, count_given, hand_over, NULL };
static script *const reaper[] = { reap_unneeded, drain_chain, reap_unneeded, drain_chain, NULL };
static script *const reaper_of_all[] = { reap_all, drain_chain, NULL };

struct scenario {
    const char *name;
    script *const *scripts[THREADS_MOST];
    unsigned full, empty; // in the depot at first
};

static const struct scenario scenarios[] = {
    { "two refill, one full magazine", { refill, refill }, 1, 0 },
    { "two refill, two full magazines", { refill, refill }, 2, 1 },
    { "two make room, one empty magazine", { make_room, make_room }, 0, 1 },
    { "refill against make room", { refill, make_room }, 1, 1 },
    { "refill, make room, reap", { refill_once, make_room, reaper }, 1, 1 },
    { "refill, make room, reap all", { refill, make_room, reaper_of_all }, 2, 1 },
    { "hand over against refill and reap", { outbound_exchange, refill_once, reaper_of_all }, 0, 1 },
    { "hand over against make room and reap", { outbound, make_room_once, reaper }, 1, 0 },
    { "two reap", { reaper, reaper_of_all, make_room_once }, 2, 2 },
};

static bool gives(script *const *steps) {
    return steps[0] == count_given;
}

// Those that give start with a full magazine, those that need one with two empty ones.
static void world_make(const struct scenario *scenario) {
    memset(&world, 0, sizeof world);
    memset(threads, 0, sizeof threads);
    magazine_count = thread_count = 0;
    depot_init(&world.depot);
    for (unsigned i = 0; i < scenario->full; i++)
        depot_put(&world.depot, magazine_again(CAPACITY - i % 2), NULL);
    for (unsigned i = 0; i < scenario->empty; i++)
        depot_put(&world.depot, magazine_again(0), NULL);
    world.counted = world.depot.rounds;
    for (; thread_count < THREADS_MOST && scenario->scripts[thread_count] != NULL; thread_count++) {
        struct thread *thread = &threads[thread_count];

        thread->script = scenario->scripts[thread_count];
        if (gives(thread->script))
            thread->loaded = magazine_again(CAPACITY);
        else if (thread->script[0] == take_full)
            thread->previous = magazine_again(0);
        while (thread->script[thread->steps] != NULL)
            thread->steps++;
    }
}

static struct thread *choose_thread(void) {
    struct thread *ready[THREADS_MOST];
    unsigned count = 0;

    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].at < threads[i].steps)
            ready[count++] = &threads[i];
    return count == 0 ? NULL : ready[choose(&choices, count)];
}

static void every_interleaving(const struct scenario *scenario) {
    size_t runs = 0;

    do {
        struct thread *thread;

        world_make(scenario);
        check_world(true);
        while ((thread = choose_thread()) != NULL) {
            thread->script[thread->at++](thread);
            check_world(false);
        }
        check_world(true);
        runs++;
    } while (choices_next(&choices));
    say("%s: %zu interleavings", scenario->name, runs);
}

int main(void) {
    CHECK(heap_ready());
    for (unsigned i = 0; i < MAGAZINES_MOST; i++)
        CHECK((magazines[i] = magazine_create(CAPACITY, WORD)) != NULL);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        every_interleaving(&scenarios[i]);
    return 0;
}
