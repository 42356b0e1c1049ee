// Tests guard/table.h: freed buffers are held, the oldest is released first, and only while more than what may be held are; those of one cache are released
// together, without a look at the others.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/table.h"

#include <stdatomic.h>
#include <time.h>

#include "unit.h"

enum { RECORDS = 5000 /* more than the first buckets */, BLOCK = 256 };
enum { CACHES = 3, MANY = 200000, TIMES = 20000, SECONDS_MOST = 5 };

static struct guarded records[RECORDS];
static struct guard_cache cache;

static void hold(struct guarded *record, uintptr_t address, struct guard_cache *of) {
    *record = (struct guarded){ .address = address, .block_bytes = BLOCK, .cache = of };
    CHECK(guard_table_add(record));
    guard_table_hold(record);
}

static size_t release_of(struct guard_cache *of, uintptr_t first, uintptr_t apart) {
    size_t count = 0;

    for (struct guarded *record = guard_table_release_of(of); record != NULL; record = record->newer, count++)
        CHECK(record->cache == of && record->address == first + count * apart);
    return count;
}

// Records of three caches by turns; one cache's are released, then the oldest of the others, then those of each.
static void caches_by_turns(void) {
    static struct guard_cache some[CACHES];

    for (unsigned i = 0; i < RECORDS; i++)
        hold(&records[i], (i + 1) * BLOCK, &some[i % CACHES]);
    CHECK_EQ(release_of(&some[1], 2 * BLOCK, CACHES * BLOCK), (RECORDS + CACHES - 2) / CACHES);
    CHECK_EQ(release_of(&some[1], 0, 0), 0);
    CHECK(some[1].newest_held == NULL && guard_table_release(0) == &records[0] && guard_table_release(0) == &records[2]);
    CHECK_EQ(release_of(&some[2], (2 + CACHES + 1) * BLOCK, CACHES * BLOCK), RECORDS / CACHES - 1);
    hold(&records[1], 2 * BLOCK, &some[1]);
    CHECK_EQ(release_of(&some[0], (1 + CACHES) * BLOCK, CACHES * BLOCK), (RECORDS + CACHES - 1) / CACHES - 1);
    CHECK(guard_table_release(0) == &records[1] && guard_table_release(0) == NULL && guard_table.newest == NULL);
    CHECK_EQ(guard_table.records, 0);
}

// Many are held when caches come and go.
static void one_behind_many(void) {
    static struct guarded many[MANY + 1];
    static struct guard_cache other;
    clock_t begin;

    for (unsigned i = 0; i < MANY; i++)
        hold(&many[i], (i + 1) * BLOCK, &cache);
    begin = clock();
    for (unsigned i = 0; i < TIMES; i++) {
        hold(&many[MANY], BLOCK / 2, &other);
        CHECK_EQ(release_of(&other, BLOCK / 2, 0), 1);
    }
    CHECK_LE((clock() - begin) / CLOCKS_PER_SEC, SECONDS_MOST);
    CHECK_EQ(release_of(&cache, BLOCK, BLOCK), MANY);
}

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
    caches_by_turns();
    one_behind_many();
    return 0;
}
