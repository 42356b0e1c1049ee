// No magazine of fronts of processors is lost, however these grow, meet other arenas' objects and are emptied; and a small object of another processor's arena
// is on its way home in a magazine.
// SPDX-License-Identifier: BSD-2-Clause
#include <sched.h>
#include <stdint.h>

#include "check.h"
#include "conf/options.h"
#include "heap/arena.h"
#include "heap/cpu_front.h"
#include "heap/reclaim.h"
#include "magazine/processors.h"

enum { SMALL = 32, OBJECTS = 3000, ROUNDS = 20, SIDES = 2 };

static int sides[SIDES]; // processors
static unsigned count;   // of them

static void find_sides(void) {
    cpu_set_t allowed;

    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int number = 0; number < CPU_SETSIZE && count < SIDES; number++)
        if (CPU_ISSET(number, &allowed))
            sides[count++] = number;
}

static void go_to(unsigned side) {
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sides[side % count], &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

static size_t magazines_in_use(void) {
    size_t used = 0;

    for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
        used += bin_used(&magazines_bins_at()[size]);
    return used;
}

static void nothing_is_left(void) {
    reclaim_everything();
    CHECK_EQ(magazines_in_use(), 0);
}

static void *objects[OBJECTS];

static void allocate(size_t size, int number) {
    for (int i = 0; i < number; i++)
        CHECK((objects[i] = malloc(size)) != NULL);
}

static void free_all(int number) {
    for (int i = 0; i < number; i++)
        free(objects[i]);
}

static void grow_and_travel(size_t size) {
    for (unsigned round = 0; round < ROUNDS; round++) {
        go_to(round);
        allocate(size, OBJECTS >> round % 4);
        go_to(round + round / 2);
        free_all(OBJECTS >> round % 4);
    }
    CHECK_GT(magazines_in_use(), 0);
}

static void on_the_way_home(void) {
    unsigned class = size_class(SMALL), slot = HOMEWARD + class;
    struct processor *processor;

    go_to(0);
    allocate(SMALL, 10);
    go_to(1);
    free(malloc(SMALL)); // it has an arena from now on
    free_all(10);
    processor = processor_enter();
    CHECK(processor != NULL);
    CHECK(processor->number == sides[1] && processor->slots[slot].loaded != NULL);
    CHECK_EQ(processor->tops[slot] - processor->slots[slot].loaded->round, 10);
    processor_leave(processor);
}

// What was used since the last look stays; then the previous magazine goes, then the loaded one. It is told whether there may be more.
static void idle_ones_go(void) {
    enum { BYTES = 64 };
    unsigned class = size_class(BYTES);
    uint64_t now = (uint64_t)1 << 40;
    struct processor *processor;
    bool had_previous;

    go_to(0);
    for (int round = 0; round < 4; round++) {
        allocate(BYTES, OBJECTS);
        free_all(OBJECTS);
    }
    processor = processor_enter();
    CHECK(processor != NULL && processor->slots[class].loaded != NULL);
    processor_leave(processor);
    cpu_fronts_tidy(now);
    CHECK(processor->slots[class].loaded != NULL);
    had_previous = processor->slots[class].previous != NULL;
    CHECK(cpu_fronts_tidy(now += TIDY_MS) == had_previous);
    CHECK((processor->slots[class].loaded != NULL) == had_previous && processor->slots[class].previous == NULL);
    CHECK(had_previous && cpu_fronts_tidy(now + 1)); // too soon: as it was told
    CHECK(processor->slots[class].loaded != NULL);
    while (cpu_fronts_tidy(now += TIDY_MS))
        CHECK_LT(now, ((uint64_t)1 << 40) + 100 * TIDY_MS);
    CHECK(processor->slots[class].loaded == NULL);
    nothing_is_left();
}

int main(void) {
    options.background_thread = false;
    free(malloc(SMALL)); // processors are counted then, before this thread keeps to one
    find_sides();
    if (cpu_nowhere == NULL)
        SKIP("no restartable sequences here");
    nothing_is_left();
    for (size_t size = 8; size <= 2048; size *= 2) {
        grow_and_travel(size);
        cpu_fronts_flush();
        nothing_is_left();
        grow_and_travel(size);
        cpu_fronts_drain();
        nothing_is_left();
    }
    idle_ones_go();
    if (count == SIDES && arenas_automatic_most() > 1)
        on_the_way_home();
    return 0;
}
