// A program that works with one size after the other, as sh6bench does: of what it allocated of a size little stays for a while. Idle
// magazines and empty slabs of the sizes before must serve the next, not fresh pages.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"

enum { TURNS = 3, MOST = 1000, GROUP_BYTES = 64 << 10, GROUP_MOST = 500, KEPT = 8, RESIDENT_MOST = 1400 << 10 };

static void *kept[KEPT][GROUP_MOST];
static unsigned kept_count[KEPT];

static void work_with(size_t size, unsigned turn) {
    void *going[GROUP_MOST];
    unsigned lane = turn % KEPT, count = GROUP_BYTES / size < GROUP_MOST ? (unsigned)(GROUP_BYTES / size) : GROUP_MOST, going_count = 0;
    while (kept_count[lane] > 0) free(kept[lane][--kept_count[lane]]);
    for (unsigned i = 0; i < count; i++) {
        void *object = malloc(size);
        CHECK(object != NULL);
        memset(object, 1, size);
        if (i % 4 == 3) kept[lane][kept_count[lane]++] = object;
        else going[going_count++] = object;
    }
    for (unsigned i = 0; i < going_count; i++) free(going[turn % 2 == 0 ? i : going_count - 1 - i]);
}

int main(void) {
    memset(kept, 0, sizeof kept);
    void *volatile first = malloc(1);
    free(first);
    long before = anonymous_bytes(), most = 0;
    unsigned turn = 0;
    for (int i = 0; i < TURNS; i++)
        for (size_t size = 1; size <= MOST; size++) {
            work_with(size, turn++);
            if (turn % 50 != 0) continue;
            long held = anonymous_bytes() - before;
            most = held > most ? held : most;
        }
    say("%ld KiB resident at most", most >> 10);
    CHECK_LT(most, (long)RESIDENT_MOST);
    return 0;
}
