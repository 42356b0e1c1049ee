// The argument of heap/sleepers.h, tried out: a thread's hits, step by step, against the steps that take its rounds from outside, in
// every interleaving. Nothing of the library is called here but the numbers; the steps are those of heap/fast.h and heap/sleepers.c.
//
// The thread's stores wait in a buffer and become visible in any order that keeps those of one place in theirs, which is less than what
// x86-64 and AArch64 promise; a fence empties the buffer. The states are searched depth first, each once. At the end of every path
// each object is in one place: with the program, ahead, in the magazine, or taken.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { CAPACITY = 4, OPERATIONS = 3, BUFFER = 4, OBJECTS = CAPACITY + 3 };
enum { NOTHING = 0, WORD = 100, FULL = 101, GAP = 102, CLOSED = 200 };      // values; objects are 1 …
enum { TOP, AHEAD, INSIDE, VISITED, GUARD, SLOTS, END = SLOTS + CAPACITY + 1 }; // places; a top is the place of a slot

enum operation { MALLOC, MALLOC_LAST, FREE, FREE_NULL, KINDS };

struct store {
    uint8_t place, value;
};

// What is left out: which objects the program holds is told by `held`.
struct state {
    uint8_t memory[END];
    struct store buffer[BUFFER];
    uint8_t buffered;
    uint8_t at, step, top, below, next, object; // the thread: operation, step of it, its registers
    uint8_t held[OBJECTS + 1];           // 1: the program has it; 2: it is being freed
    uint8_t visit, slot;                 // the other one: its step, and within it
    uint8_t seen, taken[CAPACITY], takes; // the word as it was; the rounds taken
};

static enum operation script[OPERATIONS];
static unsigned visits; // that the other one makes
static uint64_t paths, states, total;

// A set of states already searched.
enum { LG_TABLE = 22 };
static uint64_t *seen_before;

static bool is_new(const struct state *state) {
    const unsigned char *bytes = (const unsigned char *)state;
    uint64_t hash = 14695981039346656037ull;

    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9ull;
    hash |= 1;
    for (size_t at = hash >> (64 - LG_TABLE);; at = (at + 1) & ((1u << LG_TABLE) - 1)) {
        if (seen_before[at] == hash)
            return false;
        if (seen_before[at] == 0) {
            seen_before[at] = hash;
            total++;
            CHECK(++states < (3u << LG_TABLE) / 4);
            return true;
        }
    }
}

static uint8_t load(const struct state *state, uint8_t place) {
    if (place == CLOSED)
        return FULL;
    if (place == CLOSED - 1 || place == CLOSED - 2)
        return NOTHING;
    for (int i = state->buffered - 1; i >= 0; i--)
        if (state->buffer[i].place == place)
            return state->buffer[i].value;
    CHECK(place < END);
    return state->memory[place];
}

// As the hits of malloc see it, to which all that is no address above zero is nothing.
static bool is_round(uint8_t value) {
    return value != NOTHING && value != GAP;
}

static void store(struct state *state, uint8_t place, uint8_t value) {
    CHECK(place < END && state->buffered < BUFFER);
    state->buffer[state->buffered++] = (struct store){ place, value };
}

// Makes one store of the buffer visible. False: one before it is of the same place.
static bool drain(struct state *state, unsigned i) {
    for (unsigned before = 0; before < i; before++)
        if (state->buffer[before].place == state->buffer[i].place)
            return false;
    state->memory[state->buffer[i].place] = state->buffer[i].value;
    memmove(&state->buffer[i], &state->buffer[i + 1], (--state->buffered - i) * sizeof state->buffer[0]);
    memset(&state->buffer[state->buffered], 0, sizeof state->buffer[0]);
    return true;
}

static void fence(struct state *state) {
    while (state->buffered > 0)
        CHECK(drain(state, 0));
}

static bool is_closed(uint8_t top) {
    return top == CLOSED || top == CLOSED - 1;
}

// What the slow path finds in the magazine: front_rounds_below and magazine_close_gap.
static unsigned rounds_of(const struct state *state, uint8_t top) {
    unsigned rounds = 0;

    if (!is_closed(top))
        return top - SLOTS;
    while (rounds < CAPACITY && state->memory[SLOTS + rounds] != WORD)
        rounds++;
    return rounds;
}

static void reload(struct state *state) {
    unsigned rounds, gap = 0;

    fence(state);
    rounds = rounds_of(state, state->memory[TOP]);
    while (gap < rounds && state->memory[SLOTS + gap] == GAP)
        gap++;
    for (unsigned i = 0; i < CAPACITY; i++)
        state->memory[SLOTS + i] = i < rounds - gap ? state->memory[SLOTS + i + gap] : WORD;
    state->memory[TOP] = (uint8_t)(SLOTS + rounds - gap);
    while (state->memory[TOP] > SLOTS && state->memory[state->memory[TOP] - 1] == NOTHING)
        state->memory[--state->memory[TOP]] = WORD;
}

static void got(struct state *state, uint8_t object) {
    CHECK(object >= 1 && object <= OBJECTS && state->held[object] == 0);
    state->held[object] = 1;
    state->at++;
    state->step = state->top = state->below = state->next = state->object = 0;
}

enum { MISSED = 10, TAKEN = GAP };

// The slow path: it waits while it is visited, reloads, and the operation begins again; or has nothing to reload and gives up.
static bool missed(struct state *state) {
    switch (state->step) {
    case MISSED:
        store(state, INSIDE, 1);
        break;
    case MISSED + 1:
        if (load(state, VISITED) != 0)
            return false;
        break;
    case MISSED + 2:
        reload(state);
        break;
    default:
        store(state, INSIDE, 0);
        state->step = 0;
        if (script[state->at] >= FREE ? load(state, SLOTS + CAPACITY - 1) != WORD : load(state, SLOTS) == WORD) {
            for (uint8_t i = 1; i <= OBJECTS; i++)
                state->held[i] &= 1;
            state->at++;
        }
        state->top = state->below = state->next = state->object = 0;
        return true;
    }
    state->step++;
    return true;
}

static bool step_malloc(struct state *state) {
    switch (state->step++) {
    case 0:
        state->below = load(state, TOP) - 1;
        return true;
    case 1:
        state->next = load(state, state->below);
        if (!is_round(state->next))
            state->step = MISSED;
        return true;
    case 2:
        state->object = load(state, AHEAD);
        return true;
    case 3:
        state->top = load(state, TOP) - 1; // counted down in memory, which the others may see as two steps
        return true;
    case 4:
        store(state, TOP, state->top);
        return true;
    case 5:
        store(state, AHEAD, state->next);
        return true;
    default:
        store(state, state->below, WORD);
        got(state, state->object);
        return true;
    }
}

static bool step_malloc_last(struct state *state) {
    switch (state->step++) {
    case 0:
        state->top = load(state, TOP);
        return true;
    case 1:
        state->object = load(state, state->top - 1);
        if (!is_round(state->object))
            state->step = MISSED;
        return true;
    case 2:
        store(state, TOP, state->top - 1);
        return true;
    default:
        store(state, state->top - 1, WORD);
        got(state, state->object);
        return true;
    }
}

static bool step_free(struct state *state) {
    uint8_t object = 1;

    switch (state->step++) {
    case 0:
        while (object <= OBJECTS && state->held[object] != 1)
            object++;
        CHECK(object <= OBJECTS);
        state->object = object;
        state->held[object] = 2;
        state->top = load(state, TOP);
        return true;
    case 1:
        if (load(state, state->top) != WORD) {
            state->held[state->object] = 1;
            state->step = MISSED;
        }
        return true;
    case 2:
        store(state, state->top, state->object);
        return true;
    default:
        store(state, TOP, state->top + 1);
        state->held[state->object] = 0;
        state->at++;
        state->step = state->top = state->object = 0;
        return true;
    }
}

// A sized free of NULL looks at the slot and not at what it puts there.
static bool step_free_null(struct state *state) {
    switch (state->step++) {
    case 0:
        state->top = load(state, TOP);
        return true;
    case 1:
        if (load(state, state->top) != WORD)
            state->step = MISSED;
        return true;
    case 2:
        store(state, state->top, NOTHING);
        return true;
    default:
        store(state, TOP, state->top + 1);
        state->at++;
        state->step = state->top = 0;
        return true;
    }
}

// One step of the thread. False: it has none, or waits.
static bool step_thread(struct state *state) {
    if (state->at == OPERATIONS || state->buffered == BUFFER)
        return false;
    if (state->step >= MISSED)
        return missed(state);
    switch (script[state->at]) {
    case MALLOC:
        return step_malloc(state);
    case MALLOC_LAST:
        return step_malloc_last(state);
    case FREE:
        return step_free(state);
    default:
        return step_free_null(state);
    }
}

enum { STOP, CLOSE, FENCE, LOOK, TAKE, FENCE_AGAIN, SETTLE, PUT_BACK, LEAVE, VISIT_STEPS };

static void next_step(struct state *state, unsigned step) {
    state->visit = (uint8_t)(state->visit / VISIT_STEPS * VISIT_STEPS + step);
    state->slot = 0;
}

// The rounds of this visit stand at the end of `taken`, those that a visit before it has are no longer told apart.
static void step_visit(struct state *state) {
    unsigned rounds;

    switch (state->visit % VISIT_STEPS) {
    case STOP:
        state->memory[VISITED] = 1;
        next_step(state, CLOSE);
        return;
    case CLOSE:
        state->seen = state->memory[TOP];
        state->memory[TOP] = CLOSED;
        next_step(state, FENCE);
        return;
    case FENCE:
        fence(state);
        next_step(state, LOOK);
        return;
    case LOOK:
        next_step(state, state->memory[INSIDE] != 0 || !is_closed(state->memory[TOP]) ? LEAVE : TAKE);
        return;
    case TAKE:
        rounds = rounds_of(state, state->seen);
        if (state->slot + 1 < (int)rounds && state->memory[SLOTS + state->slot] != WORD && is_round(state->memory[SLOTS + state->slot])) {
            state->taken[state->slot] = state->memory[SLOTS + state->slot];
            state->memory[SLOTS + state->slot++] = TAKEN;
            state->takes = state->slot;
        } else
            next_step(state, FENCE_AGAIN);
        return;
    case FENCE_AGAIN:
        fence(state);
        next_step(state, SETTLE);
        return;
    case SETTLE:
        next_step(state, is_closed(state->memory[TOP]) ? LEAVE : PUT_BACK);
        return;
    case PUT_BACK:
        if (state->slot == state->takes)
            state->takes = 0;
        if (state->takes == 0)
            next_step(state, LEAVE);
        else {
            if (state->memory[SLOTS + state->slot] == TAKEN)
                state->memory[SLOTS + state->slot] = state->taken[state->slot];
            state->slot++;
        }
        return;
    default:
        // Its own now; to the count at the end these are objects that the program does not get again.
        for (unsigned i = 0; i < state->takes; i++) {
            CHECK(state->held[state->taken[i]] == 0);
            state->held[state->taken[i]] = 3;
        }
        memset(state->taken, 0, sizeof state->taken);
        state->takes = state->seen = state->slot = 0;
        state->memory[VISITED] = 0;
        state->visit = (uint8_t)((state->visit / VISIT_STEPS + 1) * VISIT_STEPS);
        return;
    }
}

// Each object is in one place.
static void check_end(struct state state) {
    unsigned places[OBJECTS + 1] = { 0 };

    reload(&state);
    paths++;
    places[state.memory[AHEAD]]++;
    for (uint8_t place = SLOTS; place < state.memory[TOP]; place++) {
        CHECK(state.memory[place] <= OBJECTS);
        places[state.memory[place]]++;
    }
    for (unsigned i = 1; i <= OBJECTS; i++)
        CHECK_EQ(places[i] + (state.held[i] != 0), 1u);
}

static void search(const struct state *state) {
    struct state next = *state;
    bool moved = false;

    if (!is_new(state))
        return;
    if (step_thread(&next)) {
        search(&next);
        moved = true;
    }
    for (unsigned i = 0; i < state->buffered; i++) {
        next = *state;
        if (drain(&next, i)) {
            search(&next);
            moved = true;
        }
    }
    if (state->visit < visits * VISIT_STEPS) {
        next = *state;
        step_visit(&next);
        search(&next);
        moved = true;
    }
    if (!moved)
        check_end(*state);
}

static void try_all_ways(unsigned rounds) {
    struct state first, *state = &first;

    memset(state, 0, sizeof *state);
    for (unsigned i = 0; i < CAPACITY; i++)
        state->memory[SLOTS + i] = i < rounds ? (uint8_t)(i + 2) : WORD;
    state->memory[SLOTS + CAPACITY] = FULL;
    state->memory[AHEAD] = 1;
    state->memory[TOP] = (uint8_t)(SLOTS + rounds);
    for (unsigned i = rounds + 2; i <= OBJECTS; i++)
        state->held[i] = 1;
    memset(seen_before, 0, sizeof *seen_before << LG_TABLE);
    states = 0;
    search(state);
}

int main(void) {
    unsigned scripts = 1;

    seen_before = malloc(sizeof *seen_before << LG_TABLE);
    for (unsigned i = 0; i < OPERATIONS; i++)
        scripts *= KINDS;
    for (visits = 1; visits <= 2; visits++)
        for (unsigned number = 0; number < scripts; number++) {
            for (unsigned i = 0, rest = number; i < OPERATIONS; i++, rest /= KINDS)
                script[i] = (enum operation)(rest % KINDS);
            for (unsigned rounds = 1; rounds <= CAPACITY - 1; rounds++)
                try_all_ways(rounds);
        }
    CHECK(total > 100000 && paths > 500);
    free(seen_before);
    return 0;
}
