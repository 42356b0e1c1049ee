// Tests heap/samples.h: the buffer that a thread freed last is the next one's, and goes back to its slab when the thread goes on without it.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/samples.h"

#include "conf/options.h"
#include "ctl/stats.h"
#include "heap/heap.h"
#include "pages/page_map.h"
#include "unit.h"

static void *allocate(unsigned class) {
    void *object = samples_alloc(words.front->arena, class, 0);

    CHECK(object != NULL);
    return object;
}

static void release(void *object) {
    samples_free(page_map_known_run(object), object, "test");
}

static void look(void) {
    words.front->tidied_at -= 1000;
    front_look(words.front);
}

static void last_freed_is_next(void) {
    void *first = allocate(1), *second = allocate(1), *other = allocate(2);

    release(first);
    release(second); // one of a class at most
    release(other);
    CHECK(words.front->samples[1] == first && words.front->samples[2] == other);
    CHECK(allocate(1) == first && allocate(2) == other);
    CHECK(words.front->samples[1] == NULL && words.front->samples[2] == NULL);
    release(first);
    release(other);
}

// At the front's tidying: what is used between two of them stays.
static void tidied(void) {
    release(allocate(3));
    for (int i = 0; i < 4; i++) {
        look();
        CHECK(words.front->samples[3] != NULL);
        release(allocate(3));
    }
    look();
    CHECK(words.front->samples[3] != NULL); // used since the one before
    look();
    for (unsigned class = 1; class < SMALL_CLASSES; class++)
        CHECK(words.front->samples[class] == NULL);
    release(allocate(3)); // and it begins anew
    CHECK(words.front->samples[3] != NULL);
    samples_give(words.front);
    CHECK(words.front->samples[3] == NULL);
}

// They are what the program holds, and those at hand are not.
static void told(void) {
    void *held[40];
    size_t before = stats_snapshot().allocated;

    for (int i = 0; i < 40; i++)
        held[i] = allocate(5);
    CHECK_EQ(stats_snapshot().allocated, before + 40 * class_size(5));
    for (int i = 0; i < 40; i++)
        release(held[i]);
    CHECK(words.front->samples[5] != NULL);
    CHECK_EQ(stats_snapshot().allocated, before);
}

int main(void) {
    options.background_thread = false;
    free(malloc(1));
    CHECK(words.front != NULL);
    last_freed_is_next();
    tidied();
    told();
    return 0;
}
