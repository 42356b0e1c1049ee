// Tests heap/front.h: who leaves an exchange of magazines by a handler's longjmp, before whichever of its instructions, has no object twice; nor who leaves one with the
// depot while its lock is free. On x86-64, where a process can step through itself.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/front.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#if defined(__x86_64__)
#include <x86intrin.h>

enum { TRAP_FLAG = 0x100, SIZE = 200, OBJECTS = 600, LOOKED_AT = 3 * OBJECTS, WAVES = 60, STEPS_LEAST = 40 };
enum exchange { LEFT, DONE, NOT_DONE };

static sigjmp_buf back;
static volatile unsigned steps, last; // 0: none
static bool by_depot;
static void *objects[OBJECTS];

static void on_step(int number) {
    (void)number;
    if (++steps < last || last == 0)
        return;
    if (by_depot && front_arena(words.front, size_class(SIZE))->depots[size_class(SIZE)].lock.word != 0)
        return;
    last = steps;
    mutexes_held = 0;
    siglongjmp(back, 1);
}

static bool is_next(bool to_free) {
    unsigned class = size_class(SIZE);
    const struct magazine *loaded = words.front->loaded[class], *previous = words.front->previous[class];

    if (by_depot)
        return last != 0 && loaded != NULL && previous != NULL && words.top[class] == loaded->round && previous->rounds == 0 &&
               front_arena(words.front, class)->depots[class].full.length > 0 && (words.front->misses + 1) % MISSES_A_LOOK != 0;
    return last != 0 && loaded != NULL && previous != NULL && words.top[class] == loaded->round + (to_free ? loaded->capacity : 0) &&
           (previous->rounds == 0) == to_free;
}

// For rounds, or, when there is an object, to put it.
static enum exchange exchange_in_steps(void *object) {
    unsigned class = size_class(SIZE);
    bool done;

    steps = 0;
    if (sigsetjmp(back, 1) != 0)
        return LEFT;
    __writeeflags(__readeflags() | TRAP_FLAG);
    if (by_depot)
        done = front_refill(words.front, class);
    else
        done = object == NULL ? front_exchange_for_rounds(words.front, class) : front_exchange_and_put(words.front, class, object);
    __writeeflags(__readeflags() & ~(unsigned long long)TRAP_FLAG);
    return done ? DONE : NOT_DONE;
}

static int by_address(const void *one, const void *other) {
    uintptr_t a = *(const uintptr_t *)one, b = *(const uintptr_t *)other;

    return (a > b) - (a < b);
}

// Of what the program has and all that the magazines have.
static void none_is_there_twice(void **held, size_t count) {
    static void *others[LOOKED_AT], *all[OBJECTS + LOOKED_AT];

    for (size_t i = 0; i < LOOKED_AT; i++)
        others[i] = malloc(SIZE);
    memcpy(all, held, count * sizeof *all);
    memcpy(all + count, others, sizeof others);
    qsort(all, count + LOOKED_AT, sizeof *all, by_address);
    for (size_t i = 1; i < count + LOOKED_AT; i++)
        CHECK(all[i] != all[i - 1]);
    for (size_t i = 0; i < LOOKED_AT; i++)
        free(others[i]);
}

static void free_all(void **held, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(held[i]);
}

static enum exchange allocate(void) {
    enum exchange exchange = NOT_DONE;
    size_t count = 0;

    while (count < OBJECTS && exchange == NOT_DONE) {
        if (is_next(false))
            exchange = exchange_in_steps(NULL);
        if (exchange != LEFT)
            objects[count++] = malloc(SIZE);
    }
    for (int i = 0; i < 2 && exchange == LEFT; i++) // what lies in a depot twice comes back from there
        none_is_there_twice(objects, count);
    free_all(objects, count);
    return exchange;
}

// The object of which the free was left is free or lost.
static enum exchange free_again(void) {
    enum exchange exchange = NOT_DONE;
    size_t freed = 0;

    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = malloc(SIZE);
    for (; freed < OBJECTS && exchange == NOT_DONE; freed++) {
        if (is_next(true))
            exchange = exchange_in_steps(objects[freed]);
        if (exchange == NOT_DONE)
            free(objects[freed]);
    }
    if (exchange == LEFT)
        none_is_there_twice(objects + freed, OBJECTS - freed);
    free_all(objects + freed, OBJECTS - freed);
    return exchange;
}

// Before one instruction after the other, until there are no more.
static void leave(enum exchange (*wave)(void)) {
    unsigned waves = 0;

    for (last = 0; waves < WAVES; waves++) // magazines grow
        wave();
    for (last = 1, waves = 0; waves < WAVES; waves++) {
        enum exchange exchange = wave();

        if (exchange == DONE)
            break;
        if (exchange == LEFT)
            last++, waves = 0;
    }
    CHECK_GT(last, STEPS_LEAST);
    CHECK_LT(waves, WAVES);
}

int main(void) {
    struct sigaction action = { .sa_handler = on_step };

    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    free(malloc(SIZE)); // the thread has a front
    leave(allocate);
    leave(free_again);
    by_depot = true;
    leave(allocate);
    return 0;
}
#else
int main(void) {
    return 0;
}
#endif
