// Strings that grow by realloc through all size classes and are dropped, many at a time: a class that most of them have left keeps few slabs.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"
#include "../support/sizes.h"

enum { STRINGS = 4000, LONGEST = 8000, LEAST_MORE = 20, MORE = 200, STEPS = 800 * 1000, CLASSES = 36 };

static struct {
    char *text;
    size_t length, end; // dropped when longer
} strings[STRINGS];

// Returns by how much the strings grew, negative when one was dropped.
static long grow_one(uint64_t *random) {
    size_t at = random_below(random, STRINGS), before = strings[at].length;
    if (before > strings[at].end) {
        free(strings[at].text);
        strings[at].text = NULL;
        strings[at].length = 0;
        strings[at].end = LONGEST;
    }
    size_t old = strings[at].length;
    strings[at].length += LEAST_MORE + random_below(random, MORE);
    strings[at].text = realloc(strings[at].text, strings[at].length);
    CHECK(strings[at].text != NULL);
    memset(strings[at].text + old, 1, strings[at].length - old);
    return (long)strings[at].length - (long)before;
}

int main(void) {
    uint64_t random = 88172645463325252u;
    long base = anonymous_bytes(), live = 0, most_live = 0, most_held = 0;
    for (size_t i = 0; i < STRINGS; i++)
        strings[i].end = random_below(&random, LONGEST);
    for (size_t step = 1; step <= STEPS; step++) {
        live += grow_one(&random);
        if (live > most_live)
            most_live = live;
        if (step % (STEPS / 100) == 0 && anonymous_bytes() - base > most_held)
            most_held = anonymous_bytes() - base;
    }
    say("%ld KiB of strings at most, %ld KiB resident", most_live >> 10, most_held >> 10);
    CHECK_LT(most_held, most_live * 2 + CLASSES * (sysconf(_SC_PAGESIZE) - 4096)); // a slab of each in use
    return 0;
}
