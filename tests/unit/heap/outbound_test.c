// Tests heap/outbound.h: what a thread frees of other arenas goes home, sorted by owner, or serves that thread again.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/outbound.h"

#include <pthread.h>

#include "conf/options.h"
#include "heap/explicit.h"
#include "heap/heap.h"
#include "heap/loaded.h"
#include "heap/reclaim.h"
#include "pages/page_map.h"
#include "unit.h"

enum { ARENAS = 3, OBJECTS = 1200, FEW = 100 };

static void *objects[OBJECTS];

// What the other thread does: frees so many objects of this thread, and from the middle on allocates two of that size after each.
struct visit {
    size_t bytes, count;
    size_t taken_back; // of what it allocated belonged to another arena
};

static void *free_and_allocate(void *argument) {
    struct visit *visit = argument;
    static void *mine[OBJECTS];
    size_t taken = 0;

    free(malloc(8));
    for (size_t i = 0; i < visit->count; i++) {
        free(objects[i]);
        for (; i > visit->count / 2 && taken / 2 < i - visit->count / 2; taken++) {
            mine[taken] = malloc(visit->bytes);
            memset(mine[taken], 1, visit->bytes);
            visit->taken_back += page_map_word(mine[taken]) != words.front->word[size_class(visit->bytes)];
        }
    }
    for (size_t i = 0; i < taken; i++)
        free(mine[i]);
    return NULL;
}

static size_t taken_back(size_t bytes, size_t count) {
    struct visit visit = {.bytes = bytes, .count = count};
    pthread_t thread;

    for (size_t i = 0; i < count; i++)
        objects[i] = malloc(bytes);
    CHECK_EQ(pthread_create(&thread, NULL, free_and_allocate, &visit), 0);
    pthread_join(thread, NULL);
    return visit.taken_back;
}

// All objects of the class are in their slabs again, of every arena.
static void check_all_home(unsigned class) {
    reclaim_everything();
    for (unsigned i = 0; i < ARENAS; i++)
        if (arena_of(i) != NULL) {
            CHECK_EQ(arena_of(i)->bins[class].filled, arena_of(i)->bins[class].drained);
            bin_check(&arena_of(i)->bins[class]);
        }
}

static void sorted_by_owner(void) {
    unsigned class = size_class(96);
    void *rounds[3][32], *all[96];
    size_t got[3], count = 0;

    for (unsigned arena = 0; arena < ARENAS; arena++)
        got[arena] = arena_fill(arena_make_automatic(arena), class, rounds[arena], 32);
    for (size_t i = 0; i < 32; i++)
        for (unsigned arena = 0; arena < ARENAS; arena++)
            if (i >= 32 - got[arena])
                all[count++] = rounds[arena][i];
    CHECK_GT(count, 32);
    CHECK_EQ(rounds_gather(all, count, arena_word(2, class)), got[2]);
    CHECK_EQ(page_map_word(all[got[2] - 1]), arena_word(2, class));
    CHECK_NE(page_map_word(all[got[2]]), arena_word(2, class));
    rounds_go_home(arena_of(1), class, all, count, "free");
    check_all_home(class);
}

// The other thread is of another arena; a stream of objects large enough comes back to it, small ones and a few do not.
static void streams(void) {
    static const struct {
        size_t bytes, count;
        bool comes_back;
    } cases[] = {
        {512, OBJECTS, true}, {64, OBJECTS, true},   {96, OBJECTS, true},   {48, OBJECTS, false},
        {8, OBJECTS, false},  {512, FEW, false}, {20000, FEW, false}, {20000, OBJECTS, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t taken = taken_back(cases[i].bytes, cases[i].count);

        say("%zu objects of %zu bytes: %zu came back", cases[i].count, cases[i].bytes, taken);
        CHECK_EQ(taken > 0, cases[i].comes_back);
        if (cases[i].bytes <= SLAB_MOST)
            check_all_home(size_class(cases[i].bytes));
    }
}

enum { BYTES = 96, STREAM_ROUNDS = 240, HOUR_MS = 3600 * 1000 };

// What the other thread has loaded, and where its next full outbound magazine shall go.
struct station {
    size_t loaded;
    bool stays;
};

static size_t depot_rounds_of(const struct arena *arena, unsigned class) {
    return arena->depots[class].rounds;
}

// A full magazine of objects of this thread's arena, after a stream of them, with so many rounds of its own loaded.
static void *fill_outbound(void *argument) {
    const struct station *station = argument;
    unsigned class = size_class(BYTES);
    struct arena *owner = arena_of_word(page_map_word(objects[0]));
    static void *mine[OBJECTS];
    size_t count = 0, freed = STREAM_ROUNDS, before;

    mine[count++] = malloc(BYTES);
    words.front->tidied_at += HOUR_MS; // however slow the machine is
    CHECK_NE(words.front->arena, owner);
    for (size_t i = 0; i < freed; i++)
        free(objects[i]);
    while (front_rounds(words.front, class) > station->loaded)
        mine[count++] = malloc(BYTES);
    CHECK_EQ(front_rounds(words.front, class), station->loaded);
    CHECK_EQ(words.front->previous[class], NULL);
    before = depot_rounds_of(owner, class);
    while (words.front->outbound[class].magazine == NULL || *words.front->outbound[class].top != MAGAZINE_FULL)
        free(objects[freed++]);
    CHECK_EQ(depot_rounds_of(owner, class), before);
    free(objects[freed++]);
    CHECK_EQ(words.front->previous[class] != NULL, station->stays);
    CHECK_EQ(depot_rounds_of(owner, class) == before, station->stays);
    if (station->stays) {
        size_t rounds = words.front->previous[class]->rounds, foreign = 0;

        for (size_t i = 0; i < station->loaded + rounds; i++) {
            mine[count] = malloc(BYTES);
            foreign += page_map_word(mine[count++]) == arena_word(owner->id, class);
        }
        CHECK_GE(foreign, rounds - 1); // one may be ahead
    }
    while (freed < OBJECTS)
        free(objects[freed++]);
    while (count > 0)
        free(mine[--count]);
    return NULL;
}

// In a stream a full magazine goes home only if the thread has enough without it.
static void full_ones_stay_where_few_rounds_are(void) {
    static struct station stations[] = {{.loaded = 1, .stays = true}, {.loaded = 11, .stays = false}};

    for (size_t i = 0; i < sizeof stations / sizeof stations[0]; i++) {
        pthread_t thread;

        for (size_t at = 0; at < OBJECTS; at++)
            objects[at] = malloc(BYTES);
        CHECK_EQ(pthread_create(&thread, NULL, fill_outbound, &stations[i]), 0);
        pthread_join(thread, NULL);
        check_all_home(size_class(BYTES));
    }
}

// A thread of an arena that the program made gets none but that arena's, and what it frees of others goes home.
static void *bound_thread(void *argument) {
    struct arena *arena = arena_make_explicit();

    (void)argument;
    CHECK_EQ(thread_set_arena(arena->id), 0);
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]);
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(512);
        CHECK_EQ(page_map_word(objects[i]), arena_word(arena->id, size_class(512)));
    }
    return NULL;
}

static void explicit_arenas_keep_apart(void) {
    pthread_t thread;

    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = malloc(512);
    CHECK_EQ(pthread_create(&thread, NULL, bound_thread, NULL), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]); // at home at once
    CHECK_EQ(words.front->outbound[size_class(512)].magazine, NULL);
    check_all_home(size_class(512));
}

int main(void) {
    CHECK(heap_ready());
    options.narenas = ARENAS;
    options.background_thread = false;
    free(malloc(24));
    sorted_by_owner();
    streams();
    full_ones_stay_where_few_rounds_are();
    explicit_arenas_keep_apart();
    return 0;
}
