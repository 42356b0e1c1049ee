// Tests guard/table.h: freed buffers are held, the oldest is released first, and only while more than what may be held are.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/table.h"

#include <stdatomic.h>

#include "unit.h"

enum { RECORDS = 5000 /* more than the first buckets */, BLOCK = 256 };

static struct guarded records[RECORDS];
static struct guard_cache cache;

int main(void) {
    size_t each = BLOCK + guard_record_bytes(), most = 100 * each;

    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = (struct guarded){ .address = (i + 1) * BLOCK, .block_bytes = BLOCK, .cache = &cache };
        CHECK(guard_table_add(&records[i]));
    }
    for (unsigned i = 0; i < RECORDS; i++)
        CHECK(guard_table_find(records[i].address, NULL) == &records[i]);
    for (unsigned i = 0; i < RECORDS; i++) {
        guard_table_hold(&records[i]);
        CHECK(guard_table_release(most) == (i < 100 ? NULL : &records[i - 100]));
        CHECK(guard_table_release(most) == NULL);
    }
    CHECK_EQ(guard_table.held_bytes, most);
    CHECK(guard_table_find(records[0].address, NULL) == NULL && guard_table_find(records[RECORDS - 1].address, NULL) != NULL);
    for (unsigned i = RECORDS - 100; i < RECORDS; i++)
        CHECK(guard_table_release(0) == &records[i]);
    CHECK(guard_table_release(0) == NULL && guard_table.held_bytes == 0 && guard_table.records == 0);
    CHECK_EQ(atomic_load(&cache.leaving), RECORDS);
    return 0;
}
