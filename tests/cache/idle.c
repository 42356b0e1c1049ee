// An idle process gives the memory of its caches back: 64 MiB of plain objects within seconds, and what has a destructor after
// that, which the background thread runs.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdatomic.h>
#include <unistd.h>
#include <vmag/cache.h>

#include "../check.h"

enum { OBJECTS = 64 * 1024, SIZE = 1024, PATIENCE = 1000 };

static void *objects[OBJECTS];
static _Atomic int constructed, destructed;

static int construct(void *object, void *argument, int flags) {
    (void)object, (void)argument, (void)flags;
    constructed++;
    return 0;
}

static void destruct(void *object, void *argument) {
    (void)object, (void)argument;
    destructed++;
}

static size_t slabs_of(vmag_cache_t *cache) {
    struct vmag_cache_stats stats;

    vmag_cache_stats(cache, &stats, sizeof stats);
    return stats.slabs;
}

static void peak(vmag_cache_t *cache, int count) {
    for (int i = 0; i < count; i++)
        memset(objects[i] = vmag_cache_alloc(cache, VMAG_SLEEP), 1, SIZE);
    for (int i = 0; i < count; i++)
        vmag_cache_free(cache, objects[i]);
}

// What this thread's two magazines hold may keep some slabs.
static void wait_for(vmag_cache_t *cache, size_t most, const char *what) {
    size_t before = slabs_of(cache);
    int tenths = 0;

    while (slabs_of(cache) > most && tenths++ < PATIENCE)
        usleep(100000);
    say("%s: %zu slabs became %zu in %d tenths of a second", what, before, slabs_of(cache), tenths);
    CHECK_LE(slabs_of(cache), most);
}

int main(void) {
    vmag_cache_t *plain = vmag_cache_create("plain", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    vmag_cache_t *costly = vmag_cache_create("costly", SIZE, 0, construct, destruct, NULL, NULL, NULL, 0);

    peak(plain, OBJECTS);
    peak(costly, OBJECTS / 16);
    wait_for(plain, 64, "plain");
    wait_for(costly, slabs_of(costly) / 4, "costly");
    CHECK_GT(destructed, constructed / 2);
    return 0;
}
