// Tests heap/arena.h: what the depots hold of one size makes way for the next, however scattered it was freed.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/arena.h"

#include "conf/options.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "unit.h"

enum { LIVE = 8 << 20, LEAST = 64, PHASES = 60, MOST_OF_LIVE = 6 };

static void *objects[LIVE / LEAST];
static struct random numbers = {1};

static void shuffle(uint32_t count) {
    for (uint32_t i = count - 1; i > 0; i--) {
        size_t other = random_below(&numbers, i + 1);
        void *object = objects[i];

        objects[i] = objects[other];
        objects[other] = object;
    }
}

static void phase(size_t size) {
    uint32_t count = (uint32_t)(LIVE / size);

    for (uint32_t i = 0; i < count; i++) {
        objects[i] = malloc(size);
        CHECK(objects[i] != NULL);
    }
    shuffle(count);
    for (uint32_t i = 0; i < count; i++)
        free(objects[i]);
}

// In use, in magazines, or dirty.
static size_t pages_held(void) {
    const struct pages *pages = &words.front->arena->pages;

    return pages_active_bytes(pages) + pages_dirty_bytes(pages);
}

int main(void) {
    size_t size = LEAST, most = 0;

    CHECK(heap_ready());
    options.background_thread = false;
    free(malloc(24));
    for (int i = 0; i < PHASES; i++) {
        phase(size);
        most = most < pages_held() ? pages_held() : most;
        size = size > LIVE / 16 ? LEAST + (size_t)i : size * 13 / 8 + 16;
    }
    say("at most %zu bytes in use and dirty, %d live", most, LIVE);
    CHECK_LE(most, MOST_OF_LIVE * LIVE);
    return 0;
}
