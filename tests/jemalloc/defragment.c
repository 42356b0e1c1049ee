// Active defragmentation as Valkey does it through jemalloc's controls: objects of slabs that are used less than the average of their bin
// are copied to where the allocator puts new ones, past the caches. Few slabs remain, and every object is what it was. What the thread's own magazines
// hold meanwhile keeps none.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <time.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

enum { OBJECTS = 60000, BYTES = 200, KEEP_ONE_OF = 7, BATCH = 16, PASSES = 6 };

static unsigned char *objects[OBJECTS];
static unsigned bin;
static uint32_t slab_objects;

static size_t get(const char *name) {
    size_t value = 0, size = sizeof value;

    if (mallctl(name, &value, &size, NULL, 0) != 0) {
        size = sizeof(uint32_t);
        value = 0;
        CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    }
    return value;
}

static size_t of_bin(const char *what) {
    char name[80];

    sprintf(name, "stats.arenas.4096.bins.%u.%s", bin, what);
    return get(name);
}

static void refresh(void) {
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

static void find_bin(void) {
    char name[80];

    for (bin = 0;; bin++) {
        sprintf(name, "arenas.bin.%u.size", bin);
        if (get(name) >= BYTES)
            break;
    }
    sprintf(name, "arenas.bin.%u.nregs", bin);
    slab_objects = (uint32_t)get(name);
}

static void fill(int i) {
    objects[i] = malloc(BYTES);
    CHECK(objects[i] != NULL);
    memset(objects[i], i & 0xff, BYTES);
}

// Used less than the others: worth moving. A full slab is not.
static bool is_sparse(const size_t *answer, size_t live, size_t slabs) {
    size_t used = answer[1] - answer[0];

    return answer[0] > 0 && used * slabs < live;
}

static void move(int i) {
    unsigned char *fresh = mallocx(BYTES, MALLOCX_TCACHE_NONE);

    memcpy(fresh, objects[i], BYTES);
    dallocx(objects[i], MALLOCX_TCACHE_NONE);
    objects[i] = fresh;
}

static int pass(void) {
    static const void *addresses[BATCH];
    int numbers[BATCH], count = 0, moved = 0;

    refresh();
    size_t live = of_bin("curregs"), slabs = of_bin("curslabs");
    for (int i = 0; i < OBJECTS; i++) {
        if (objects[i] != NULL) {
            numbers[count] = i;
            addresses[count++] = objects[i];
        }
        if (count < BATCH && i < OBJECTS - 1)
            continue;
        size_t answers[BATCH * 3], size = (size_t)count * 3 * sizeof(size_t);
        if (count > 0)
            CHECK_EQ(mallctl("experimental.utilization.batch_query", answers, &size, addresses, (size_t)count * sizeof(void *)), 0);
        for (int j = 0; j < count; j++)
            if (is_sparse(&answers[j * 3], live, slabs)) {
                move(numbers[j]);
                moved++;
            }
        count = 0;
    }
    return moved;
}

// A thread that only defragments does not miss in its magazines. What they hold goes to its slabs all the same.
static void empty_magazines(void) {
    time_t until = time(NULL) + 20;

    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    do {
        for (int i = 0; i < 100000; i++)
            dallocx(mallocx(48, MALLOCX_TCACHE_NONE), MALLOCX_TCACHE_NONE);
        refresh();
    } while (of_bin("curslabs") > 0 && time(NULL) < until);
    CHECK_EQ(of_bin("curslabs"), 0);
}

int main(void) {
    size_t before, ideal;
    int live = 0;

    find_bin();
    for (int i = 0; i < OBJECTS; i++)
        fill(i);
    for (int i = 0; i < OBJECTS; i++)
        if ((i * 2654435761u >> 16) % KEEP_ONE_OF != 0) {
            free(objects[i]);
            objects[i] = NULL;
        } else
            live++;
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(mallctl("arena.4096.purge", NULL, NULL, NULL, 0), 0); // and what depots hold
    refresh();
    before = of_bin("curslabs");
    ideal = ((size_t)live + slab_objects - 1) / slab_objects;
    CHECK_SAY(before > 4 * ideal, "%zu slabs, %zu would do", before, ideal);
    for (int i = 0; i < PASSES && pass() > 0; i++)
        continue;
    refresh();
    CHECK_SAY(of_bin("curslabs") <= ideal + ideal / 4 + 2, "%zu slabs before, %zu after, %zu would do", before, of_bin("curslabs"), ideal);
    for (int i = 0; i < OBJECTS; i++)
        for (int j = 0; objects[i] != NULL && j < BYTES; j++)
            CHECK_EQ(objects[i][j], i & 0xff);
    size_t after = of_bin("curslabs");
    empty_magazines();
    printf("%d objects: %zu slabs before, %zu after, %zu would do\n", live, before, after, ideal);
    return 0;
}
