// Two threads that miss in one class at the same time each bring a magazine; the second one's is the previous one, with some rounds taken. When it goes to a
// depot the slots above its rounds hold the page map's word: an address left there would count as a round where a word was closed from outside.
// SPDX-License-Identifier: BSD-2-Clause
#include <sched.h>
#include <stdint.h>

#include "check.h"
#include "heap/arena.h"
#include "heap/cpu_front.h"
#include "magazine/processors.h"

enum { CLASS = 5, BYTES = 64, OBJECTS = 400, ROUNDS = 12 }; // of a cache line: the first arena's

static void pin(void) {
    cpu_set_t allowed, one;
    int first = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

int main(void) {
    static void *objects[OBJECTS];
    pin();
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = malloc(BYTES)) != NULL);
    struct processor *processor = processor_enter();
    if (processor == NULL) {
        say("no restartable sequences here");
        return SKIPPED;
    }
    uint16_t word = processor_kinds(processor->tops)[CLASS];
    processor_leave(processor);
    struct arena *arena = arena_of_word(word);
    struct processor_slot *slot = &processor->slots[CLASS];
    cpu_fronts_flush();
    free(objects[OBJECTS - 1]);
    CHECK(slot->loaded != NULL && slot->previous == NULL);

    struct magazine *other = magazine_create(ROUNDS, word);
    CHECK(other != NULL);
    CHECK_EQ(arena_fill(arena, CLASS, other->round, ROUNDS), ROUNDS);
    other->rounds = ROUNDS - 1; // its thread took one
    void *taken = other->round[ROUNDS - 1];
    CHECK(processor_bring(processor, CLASS, other) == NULL && slot->previous == other);
    for (int i = 0; i < OBJECTS - 1; i++)
        free(objects[i]);
    CHECK(slot->previous != other && slot->loaded != other);
    CHECK_EQ((uintptr_t)other->round[ROUNDS - 1], word);
    free(taken);
    return 0;
}
