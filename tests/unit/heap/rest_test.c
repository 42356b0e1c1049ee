// Tests heap/reclaim.h: when nothing is left for the background thread to do. Of a large heap, whatever it looks at in which steps; and where the system takes
// nothing back, as of a process that locks all its memory, until there is more; then all goes, if it does.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"
#include "heap/arena.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/pages.h"
#include "unit.h"

enum { OBJECTS = 400, SIZE = 70000, STEPS_MOST = 200, PHASES = 8, PHASE_MS = 600 };
#define LARGE ((size_t)1 << 30)

static bool refuses;
static unsigned refusals;

bool __real_os_pages_purge(void *address, size_t size);
bool __wrap_os_pages_purge(void *address, size_t size);
bool __wrap_os_pages_purge(void *address, size_t size) {
    refusals += refuses;
    return !refuses && __real_os_pages_purge(address, size);
}

static void *objects[OBJECTS];

static void free_each(int step, int first) {
    for (int i = first; i < OBJECTS; i += step) {
        free(objects[i]);
        objects[i] = NULL;
    }
}

static uint64_t now;

static void steps_until_rest(void) {
    unsigned steps = 0;

    while (reclaim_step(now += RECLAIM_STEP_MS, false))
        CHECK_LT(++steps, STEPS_MOST);
    CHECK(!reclaim_is_left(false));
}

static size_t dirty_bytes(void) {
    size_t bytes = 0;

    for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
        bytes += pages_dirty_bytes(&arena->pages);
    return bytes;
}

static void of_a_large_heap(void) {
    free(malloc(LARGE));
    for (int phase = 0; phase < PHASES; phase++) {
        reclaim_step(now += PHASE_MS, false);
        steps_until_rest();
    }
}

static void refused(void) {
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = malloc(SIZE)) != NULL);
    refuses = true;
    free_each(4, 0);
    CHECK(reclaim_is_left(false));
    steps_until_rest();
    CHECK_GE(refusals, 1);
    CHECK_GE(dirty_bytes(), OBJECTS / 4 * SIZE);

    refusals = 0;
    free_each(4, 2);
    CHECK(reclaim_is_left(false));
    steps_until_rest();
    CHECK_GE(refusals, 1);

    refuses = false;
    free_each(2, 1);
    CHECK(reclaim_is_left(false));
    steps_until_rest();
    CHECK_EQ(dirty_bytes(), 0);
}

int main(void) {
    options.background_thread = false;
    free(malloc(1));
    now = os_clock_ms();
    of_a_large_heap();
    refused();
    return 0;
}
