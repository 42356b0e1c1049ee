// Tests heap/front.h: how many rounds a thread keeps after a heap was taken down, what its magazines took meanwhile, and that they grow again.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/capacity.h"
#include "heap/front.h"
#include "heap/loaded.h"

#include "conf/options.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "os/pages.h"
#include "unit.h"

enum { OBJECTS = 60000, ROUNDS_LEFT = 1500 };

static void *objects[OBJECTS];
static struct random numbers = {1};

static void shuffle(void) {
    for (uint32_t i = OBJECTS - 1; i > 0; i--) {
        size_t other = random_below(&numbers, i + 1);
        void *object = objects[i];

        objects[i] = objects[other];
        objects[other] = object;
    }
}

static size_t pages_pinned(void) {
    return pages_active_bytes(&words.front->arena->pages);
}

static void build(void) {
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(16 + random_below(&numbers, 497));
        CHECK(objects[i] != NULL);
    }
    shuffle();
}

static void take_down(void) {
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

// All lies in the depots then. Magazines for few rounds are as small as these want.
static void magazines_at_the_end(void) {
    size_t before = magazines_bytes(), taken;

    build();
    take_down();
    taken = magazines_bytes() - before;
    say("%zu bytes of magazines for %zu of rounds", taken, OBJECTS * sizeof(void *));
    CHECK_LE(taken, OBJECTS * sizeof(void *) * 2);
    arena_reap(words.front->arena, true);
}

// Each round may keep a slab: only a few are left in the front when all objects are freed, where 2,900 would have room. Those of a class
// that the depot had room for to the end are more. 333 to 1,260 in 1,200 takings down with other numbers, the middle 602; the same numbers have four
// outcomes, by where the heap came to lie.
static void build_and_take_down(void) {
    size_t all = 0;

    build();
    take_down();
    for (unsigned class = size_class(16); class <= size_class(512); class++) {
        size_t rounds = front_rounds(words.front, class) + words.front->previous_rounds[class];

        say("%zu bytes: %zu rounds", class_size(class), rounds);
        all += rounds;
    }
    say("%zu rounds, %zu bytes of pages", all, pages_pinned());
    if (os_page_size() == 4096) // in larger pages are more of them together
        CHECK_LE(all, ROUNDS_LEFT);
}

// One class, 400 objects at a time: after two turns all comes from magazines and the depot again.
static void grow_again(void) {
    unsigned class = size_class(64);
    const struct bin *bin = &words.front->arena->bins[class];
    uint64_t fills = 0;

    options.depot_bytes = 1 << 20;
    for (int turn = 0; turn < 20; turn++) {
        if (turn == 10)
            fills = bin->fills;
        for (int i = 0; i < 400; i++)
            objects[i] = malloc(64);
        for (int i = 0; i < 400; i++)
            free(objects[i]);
    }
    CHECK_EQ(bin->fills, fills);
    CHECK_GE(words.front->loaded[class]->capacity, 60);
}

int main(void) {
    CHECK(heap_ready());
    options.background_thread = false;
    free(malloc(24));
    CHECK_EQ(front_most_rounds(size_class(512)), 60); // 64 would take a magazine for 124
    CHECK_EQ(front_most_rounds(size_class(448)), 73);
    magazines_at_the_end();
    options.depot_bytes = 0;
    for (int i = 0; i < 3; i++)
        build_and_take_down();
    grow_again();
    return 0;
}
