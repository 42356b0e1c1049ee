// Tests front_has_one: while the fronts hold what they may a class of a thread has one magazine, gives half of it away when it is full, and goes up
// and down within a half without a miss; what lies in it, in depots and in slabs is no live object.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <string.h>

#include "conf/options.h"
#include "heap/capacity.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/loaded.h"
#include "magazine/magazine.h"
#include "slab/bin.h"
#include "many.h"
#include "unit.h"

enum { SLOTS = 200, MOST = 512, STEPS = 200000, HALF = FIRST_CAPACITY / 2, DEEP = 64, THREADS = 8, PASSES = 200 };

static void *volatile sink;
static struct arena *crowded;

static void mark_object(void *object, size_t size, unsigned mark) {
    memset(object, (int)mark, size);
}

static void check_mark(const unsigned char *object, size_t size, unsigned mark) {
    CHECK(object[0] == (unsigned char)mark && object[size / 2] == (unsigned char)mark && object[size - 1] == (unsigned char)mark);
}

// The common arena's fronts hold more than they may, by their own count; and no longer.
static void crowd(bool begin) {
    size_t more = (size_t)1 << 40;

    atomic_fetch_add(&crowded->front_bytes, begin ? more : -more);
    CHECK(fronts_hold_enough(crowded) == begin);
}

static void check_alone(unsigned class) {
    const struct front *front = words.front;

    CHECK(front->previous[class] == NULL);
    CHECK_EQ(front->capacity[class], FIRST_CAPACITY);
    CHECK(front_rounds(front, class) <= FIRST_CAPACITY + 1);
}

// Objects are allocated and freed in any order, and each is the program's alone.
static void replace(uint64_t seed) {
    struct random random = {.state = seed};
    static _Thread_local struct {
        void *object;
        size_t size;
    } slots[SLOTS];

    memset(slots, 0, sizeof slots);
    for (int step = 0; step < STEPS; step++) {
        size_t i = random_below(&random, SLOTS);

        if (slots[i].object != NULL)
            check_mark(slots[i].object, slots[i].size, (unsigned)i);
        free(slots[i].object);
        slots[i].size = 1 + random_below(&random, MOST);
        slots[i].object = random_below(&random, 4) == 0 ? NULL : malloc(slots[i].size);
        if (slots[i].object != NULL)
            mark_object(slots[i].object, slots[i].size, (unsigned)i);
        if (step % 1024 == 0)
            for (unsigned class = 1; class <= size_class(MOST); class++)
                if (words.front->capacity[class] != 0 && words.front->common == crowded) // threads that wait for locks part
                    check_alone(class);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i].object);
}

// What was full has half of its rounds, and that many objects come and go without a miss.
static void check_halves(size_t size) {
    unsigned class = size_class(size);
    void *objects[DEEP];
    uint32_t misses;

    for (int i = 0; i < DEEP; i++)
        objects[i] = malloc(size);
    for (int i = 0; i < DEEP; i++) {
        misses = words.front->misses;
        free(objects[i]);
        if (words.front->misses != misses && front_rounds(words.front, class) == HALF + 2)
            break; // it was full: half was kept, and this one; and there is one ahead
        CHECK(i < DEEP - 1);
        objects[i] = NULL;
    }
    check_alone(class);
    misses = words.front->misses;
    for (int pass = 0; pass < PASSES; pass++) {
        void *few[HALF - 1];

        for (int i = 0; i < HALF - 1; i++)
            sink = few[i] = malloc(size);
        for (int i = 0; i < HALF - 1; i++)
            free(few[i]);
    }
    CHECK_EQ(words.front->misses, misses);
}

static void *work(void *seed) {
    CHECK(front_get() != NULL);
    replace((uintptr_t)seed);
    return NULL;
}

static void *replace_alone(void *unused) {
    CHECK(front_get() != NULL);
    crowd(true);
    check_halves(256);
    check_halves(16);
    replace(1);
    crowd(false);
    return unused;
}

// Leaves magazines of the smallest common size in the depot, full ones and an empty one.
static void stock_depot(unsigned class, int full) {
    struct arena *arena = front_arena(words.front, class);

    for (int i = 0; i <= full; i++) {
        struct magazine *magazine = magazine_create(FIRST_CAPACITY, front_word(words.front, class));

        CHECK(magazine != NULL);
        while (i > 0 && magazine->rounds < FIRST_CAPACITY)
            magazine->rounds += (uint32_t)arena_fill(arena, class, magazine->round + magazine->rounds, 1);
        arena_put(arena, class, magazine);
    }
}

// Once nobody has any.
static void check_magazines_left(void) {
    size_t used = 0;

    front_flush(words.front);
    for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
        arena_reap(arena, true);
    for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
        used += bin_used(&magazines_bins_at()[size]);
    CHECK_EQ(used, 0);
}

// A thread whose first magazine comes from the depot, and is full soon.
static void *begin_with_depot(void *argument) {
    void **objects = argument, *first = malloc(MOST);
    unsigned class = size_class(MOST);

    for (int i = 0; i < DEEP; i++) {
        free(objects[i]);
        CHECK(words.front->capacity[class] == 0 || words.front->capacity[class] >= FIRST_CAPACITY);
        CHECK(front_rounds(words.front, class) <= words.front->loaded[class]->capacity + 1u + words.front->previous_rounds[class]);
    }
    for (int i = 0; i < DEEP; i++) {
        objects[i] = malloc(MOST);
        mark_object(objects[i], MOST, (unsigned)i);
    }
    for (int i = 0; i < DEEP; i++)
        check_mark(objects[i], MOST, (unsigned)i);
    free(first);
    return NULL;
}

static void in_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, function, argument), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(void) {
    pthread_t threads[THREADS];
    void *objects[DEEP];

    CHECK(heap_ready());
    options.background_thread = false;
    have_many_threads();
    CHECK(front_get() != NULL);
    crowded = words.front->common;
    in_thread(replace_alone, NULL);
    for (int i = 0; i < DEEP; i++)
        objects[i] = malloc(MOST);
    for (int i = 0; i < PASSES; i++) {
        stock_depot(size_class(MOST), 1);
        in_thread(begin_with_depot, objects);
    }
    check_magazines_left(); // the depots' may be larger
    crowd(true);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + 2)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    crowd(false);
    for (int i = 0; i < DEEP; i++)
        free(objects[i]);
    check_magazines_left();
    return 0;
}
