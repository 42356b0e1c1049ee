// vmag_ledger while every object is sampled: objects are as large as ever, and what lies behind each is what they were rounded up by.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "vmag/ledger.h"

enum { MEBIBYTE = 1 << 20, SIZE = 1024, OBJECTS = 16 * MEBIBYTE / SIZE, SLACK = MEBIBYTE };
static void *objects[OBJECTS];

int main(void) {
    struct vmag_ledger before, held;
    if (access("/proc/self/pagemap", R_OK) != 0)
        SKIP("/proc/self/pagemap cannot be read");
    free(malloc(1));
    CHECK_EQ(vmag_ledger(&before, sizeof before), 0);
    for (int i = 0; i < OBJECTS; i++)
        memset(objects[i] = malloc(SIZE), 1, SIZE);
    CHECK_EQ(vmag_ledger(&held, sizeof held), 0);
    size_t live = held.live - before.live, rounding = held.rounding - before.rounding;
    CHECK_SAY(live > 16 * MEBIBYTE - SLACK && live < 16 * MEBIBYTE + SLACK, "%zu live, %zu rounded up by", live, rounding);
    CHECK_GT(rounding, OBJECTS * 16u - SLACK / 4); // a fence each
    return 0;
}
