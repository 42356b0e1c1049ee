// What unit tests share: CHECK, a repeatable source of random numbers, and the enumeration of every sequence of choices.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_UNIT_H
#define VMAG_TESTS_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

// Numbers that are the same in every run (xorshift*), so that a failure can be repeated.
struct random {
    uint64_t state; // not 0
};

static inline uint64_t random_next(struct random *random) {
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * 0x2545f4914f6cdd1du;
}

// From 0 to limit − 1.
static inline size_t random_below(struct random *random, size_t limit) {
    return (size_t)((random_next(random) >> 32) * limit >> 32);
}

// Enumeration by running again: a test asks `choose` wherever it could go several ways; after a run, `choices_next` sets
// up the next one, depth first, until every way was gone. The test must start from the same state in every run.
enum { CHOICES_MOST = 64 };

struct choices {
    unsigned taken[CHOICES_MOST], ways[CHOICES_MOST];
    unsigned depth; // choices made in this run
    unsigned known; // choices whose way is prescribed
};

static inline unsigned choose(struct choices *choices, unsigned ways) {
    unsigned at = choices->depth++;

    CHECK(at < CHOICES_MOST && ways > 0);
    if (at >= choices->known)
        choices->taken[at] = 0;
    else
        CHECK(choices->ways[at] == ways); // the test repeats itself
    choices->ways[at] = ways;
    return choices->taken[at];
}

static inline bool choices_next(struct choices *choices) {
    unsigned at = choices->depth;

    choices->depth = 0;
    while (at > 0 && choices->taken[at - 1] + 1 == choices->ways[at - 1])
        at--;
    choices->known = at;
    if (at == 0)
        return false;
    choices->taken[at - 1]++;
    return true;
}

#endif
