// Tests that a heap that only grows gives nothing back for what its magazines take: it needs the rest of its newest huge page itself. What
// comes to lie in magazines when it is freed is made up for.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/front.h"

#include "conf/options.h"
#include "heap/heap.h"
#include "unit.h"

enum { OBJECTS = 200000 };

static void *objects[OBJECTS];
static struct random numbers = {1};

static size_t purged(void) {
    return atomic_load(&words.front->arena->pages.purged_bytes);
}

int main(void) {
    CHECK(heap_ready());
    options.background_thread = false;
    options.thp = THP_ALWAYS;
    options.dirty_decay_ms = 1000000000000; // no step of the decay while this runs: the first is due a sixteenth of this after the machine began
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(16 + random_below(&numbers, 497));
        CHECK(objects[i] != NULL);
        CHECK_EQ(purged(), 0);
    }
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    CHECK_GE(purged(), 1);
    return 0;
}
