// Tests heap/front.h: magazines of medium objects grow while the depot is visited, and only while fronts are few beside the heap; pairs of
// small ones hit wherever the magazines end, and those of all sizes by turns; a class takes from its slabs little more than is in use; and first
// magazines lie off their words.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/front.h"

#include <errno.h>

#include "conf/options.h"
#include "heap/capacity.h"
#include "unit.h"

enum { KIB = 1024, SIZE = 16 * KIB, OBJECTS = 2000, ROUNDS = 200, BATCH = 40, GROWTH = 4, SMALL = 64, PAIRS = 16, MISSES = 2 };
enum { TAKEN = 112, UP_AND_DOWN = 300, HOUR_MS = 3600 * 1000, MAGAZINES = 24 }; // fewer than 4 KiB of them

static void *objects[OBJECTS];

// Batches that no new magazine holds come and go, so that the depot is visited.
static void visit_depot(void) {
    void *batch[BATCH];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BATCH; i++)
            CHECK((batch[i] = malloc(SIZE)) != NULL);
        for (int i = 0; i < BATCH; i++)
            free(batch[i]);
    }
}

static void pairs_hit(void) {
    uint32_t misses = words.front->misses;

    for (int i = 0; i < PAIRS; i++)
        free(malloc(SMALL));
    CHECK_LE(words.front->misses - misses, MISSES);
}

// With so many objects more, and so many less.
static void pairs_hit_at_each_border(void) {
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(SMALL);
        pairs_hit();
    }
    for (int i = OBJECTS; i-- > 0;) {
        free(objects[i]);
        pairs_hit();
    }
}

// In a heap where nothing else lives each slab comes and goes with its only object: the heap grows with each class, and gives away what the others hold.
static void pairs_of_all_sizes_hit(void) {
    uint32_t misses = words.front->misses;

    for (int round = 0; round < ROUNDS; round++)
        for (unsigned class = 1; class < SLAB_CLASSES; class++)
            free(malloc(class_size(class)));
    CHECK_LE(words.front->misses - misses, SLAB_CLASSES * MISSES * 2);
}

// Of a class that nobody used before. What is up for the first time takes larger and larger batches; what goes up and down small ones.
static void fills_take_little_more(void) {
    unsigned class = size_class(TAKEN);
    const struct bin *bin = &words.front->arena->bins[class];
    size_t before = bin_used(bin);

    words.front->tidied_at += HOUR_MS; // however slow the machine is
    for (size_t i = 1; i <= OBJECTS; i++) {
        objects[i - 1] = malloc(TAKEN);
        CHECK_LE(bin_used(bin) - before, i + i / 3 + front_first_batch(class));
    }
    CHECK_GT(words.front->batch[class], front_first_batch(class));
    for (int i = 0; i < UP_AND_DOWN; i++)
        free(objects[i]);
    for (int i = 0; i < UP_AND_DOWN; i++)
        objects[i] = malloc(TAKEN);
    CHECK_EQ(words.front->batch[class], front_first_batch(class));
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

// Leaves a loaded magazine without rounds and a previous one with some. Returns how many objects it took for that.
static size_t empty_the_loaded(unsigned class) {
    size_t held = 0;

    for (int i = 0; i < OBJECTS; i++)
        objects[i] = malloc(SMALL);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    while (words.top[class] != words.front->loaded[class]->round)
        objects[held++] = malloc(SMALL);
    CHECK_GT(words.front->previous[class]->rounds, 0);
    return held;
}

// Loaded and previous are exchanged, for rounds and then for room, and nothing is lost or there twice.
static void exchanges_at_once(void) {
    unsigned class = size_class(SMALL);
    struct front *front = words.front;
    size_t held = empty_the_loaded(class);
    struct magazine *empty = front->loaded[class], *full = front->previous[class];
    uint32_t rounds = full->rounds;

    front->misses = MISSES_A_LOOK - 1; // a look at the clock is due
    CHECK(!front_exchange_for_rounds(front, class));
    front->misses = front->exchanges[class] = 0;
    CHECK(front_exchange_for_rounds(front, class));
    CHECK(front->loaded[class] == full && front->previous[class] == empty && words.top[class] == full->round + rounds);
    CHECK(front->misses == 1 && front->exchanges[class] == 1 && empty->rounds == 0 && front->previous_rounds[class] == 0);
    CHECK(!front_exchange_for_rounds(front, class)); // it has rounds
    while (words.top[class] < full->round + full->capacity)
        free(objects[--held]);
    front->misses = 0;
    CHECK(front_exchange_and_put(front, class, objects[--held]));
    CHECK(front->loaded[class] == empty && front->previous[class] == full && words.top[class] == empty->round + 1);
    CHECK(front->misses == 1 && full->rounds == full->capacity && front->previous_rounds[class] == full->capacity);
    CHECK(!front_exchange_and_put(front, class, objects[0])); // it has room
    for (; held < OBJECTS; held++)
        objects[held] = malloc(SMALL);
    for (int i = 0; i < OBJECTS; i++)
        for (int j = 0; j < i; j++)
            CHECK_NE(objects[i], objects[j]);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

// A gap, a closed word, magazines that shall grow: the slow path is to look.
static void slow_path_looks(void) {
    unsigned class = size_class(SMALL);
    struct front *front = words.front;
    size_t held = empty_the_loaded(class);
    void **top = words.top[class], *lowest;

    front->misses = front->exchanges[class] = 0;
    words.top[class] = FRONT_CLOSED;
    CHECK(!front_exchange_for_rounds(front, class) && !front_exchange_and_put(front, class, objects[0]));
    words.top[class] = top;
    front->exchanges[class] = 7;
    CHECK(!front_exchange_for_rounds(front, class));
    front->exchanges[class] = 0;
    CHECK(front_exchange_for_rounds(front, class));
    while (words.top[class] < front->loaded[class]->round + front->loaded[class]->capacity)
        free(objects[--held]);
    front->misses = 0;
    lowest = front->loaded[class]->round[0];
    front->loaded[class]->round[0] = MAGAZINE_GAP;
    CHECK(!front_exchange_and_put(front, class, objects[0]));
    front->loaded[class]->round[0] = lowest;
    while (held > 0)
        free(objects[--held]);
}

// A slot that lies a multiple of 4 KiB from the word of its class makes loads wait for stores.
static void first_magazines_lie_off_their_words(void) {
    static struct magazine *magazines[MAGAZINES];

    for (unsigned class = 1; class < CLASSES; class++) {
        uintptr_t word = (uintptr_t)&words.top[class];

        for (int i = 0; i < MAGAZINES; i++) {
            CHECK((magazines[i] = front_new_magazine(words.front, class, FIRST_CAPACITY)) != NULL);
            for (unsigned slot = 0; slot <= magazines[i]->capacity; slot++)
                CHECK((word - (uintptr_t)&magazines[i]->round[slot]) % 4096 != 0);
        }
        for (int i = 0; i < MAGAZINES; i++)
            magazine_destroy(magazines[i]);
    }
}

// What cannot be had takes nobody's magazines.
static void impossible_sizes(void) {
    uint32_t misses;

    pairs_hit();
    misses = words.front->misses;
    for (int lg = 48; lg < 63; lg++) {
        CHECK(malloc((size_t)1 << lg) == NULL && errno == ENOMEM);
        CHECK(aligned_alloc(1 << 20, (size_t)1 << lg) == NULL && realloc(NULL, (size_t)1 << lg) == NULL);
        free(malloc(SMALL));
    }
    CHECK_LE(words.front->misses - misses, 1); // a look at the clock may be due
}

int main(void) {
    unsigned class = size_class(SIZE);
    size_t most = options.magazine_bytes * (size_t)2 / SIZE;

    options.background_thread = false;
    free(malloc(1));
    CHECK(words.front != NULL);
    pairs_of_all_sizes_hit();
    words.front->arena->front_bytes = 5120 * KIB + pages_active_bytes(&words.front->arena->pages); // as if others held that much beside so small a heap
    visit_depot();
    CHECK_LE(words.front->capacity[class], most);
    words.front->arena->front_bytes = 0;
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = malloc(SIZE)) != NULL);
    visit_depot();
    CHECK_EQ(words.front->capacity[class], GROWTH * most);
    CHECK_LE(words.front->capacity[size_class(64)], front_most_rounds(size_class(64)));
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    pairs_hit_at_each_border();
    fills_take_little_more();
    exchanges_at_once();
    slow_path_looks();
    impossible_sizes();
    first_magazines_lie_off_their_words();
    return 0;
}
