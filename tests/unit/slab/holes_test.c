// Tests slab/holes.h: free pages of partial slabs are no longer resident, what is used keeps its contents, the bin's figures agree,
// slabs just used are passed over, threads that fill and drain meanwhile lose nothing, and slabs that go leave the page map under the bin's lock.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "slab/holes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/arena.h"
#include "heap/heap.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "unit.h"

enum { ARENA = 200, OBJECTS = 4000, BATCH = 50, TURNS = 3000 };

static struct pages pages;
static struct bin bin;
static unsigned char *objects[OBJECTS];
static struct random random_source = { 1994 };

// Whoever has the bin's lock and looks an address up finds a slab that is in the bin: it leaves the page map before the lock is let go of, and its header
// becomes something else's afterwards.
void __real_page_map_clear(uintptr_t start, size_t size);
void __wrap_page_map_clear(uintptr_t start, size_t size);

void __wrap_page_map_clear(uintptr_t start, size_t size) {
    const struct run *run = page_map_run((void *)start);

    CHECK(run == NULL || run->bin != &bin || atomic_load(&bin.lock.word) != 0);
    __real_page_map_clear(start, size);
}

static void bin_make(unsigned class) {
    memset(&pages, 0, sizeof pages);
    pages_init(&pages, "holes test");
    bin_init(&bin, slab_shape_for(class_size(class)), &pages, ARENA, (uint16_t)arena_word(ARENA, class));
}

static void *take(void) {
    void *object;

    while (bin_fill(&bin, &object, 1) == 0)
        CHECK(bin_grow(&bin));
    return object;
}

static void put(void *object) {
    size_t done;

    CHECK(bin_drain(&bin, &object, 1, &done) == BIN_OK);
}

static size_t resident_pages(void) {
    uintptr_t first = UINTPTR_MAX, end = 0;
    size_t resident = 0, page = os_page_size();

    for (int i = 0; i < OBJECTS; i++) {
        uintptr_t at = (uintptr_t)objects[i];

        first = at < first ? at : first;
        end = at > end ? at : end;
    }
    for (uintptr_t at = first / page * page; at <= end; at += page) {
        unsigned char in_memory;

        if (mincore((void *)at, page, &in_memory) == 0)
            resident += in_memory & 1;
    }
    return resident;
}

static size_t give_all(bool always, bool *later) {
    size_t given = 0;

    *later = false;
    for (uintptr_t at = page_map_first_chunk(); at < page_map_last_chunk_end(); at += GRANULE_BYTES)
        given += bin_give_holes(&bin, at, always, later);
    return given;
}

static void survivors_keep_their_contents(unsigned class) {
    size_t size = class_size(class), before, given, after;
    int apart = 20 * (int)(os_page_size() / 4096); // so that there are pages between them
    bool later;

    bin_make(class);
    if (bin.shape.slab_bytes == os_page_size())
        return; // with a free page it is all free, and no hole
    for (int i = 0; i < OBJECTS; i++)
        memset(objects[i] = take(), i, size);
    for (int i = 0; i < OBJECTS; i++)
        if (i % apart != 0)
            put(objects[i]);
    before = resident_pages();
    CHECK(bin_has_holes(&bin, false));
    CHECK_EQ(give_all(false, &later), 0); // all were just used
    CHECK(later);
    given = give_all(false, &later);
    after = resident_pages();
    // Of the last slab's end, which nobody used yet, nothing was resident.
    CHECK(before > after && before - after <= given / os_page_size());
    CHECK_LE(given / os_page_size() - (before - after), LARGEST_SLAB / os_page_size());
    CHECK_EQ(give_all(true, &later), 0); // once is enough
    bin_check(&bin);
    for (int i = 0; i < OBJECTS; i += apart)
        for (size_t at = 0; at < size; at++)
            CHECK(objects[i][at] == (unsigned char)i);
    for (int i = 0; i < OBJECTS; i++)
        if (i % apart != 0)
            memset(objects[i] = take(), i, size);
    bin_check(&bin);
    CHECK(resident_pages() >= before);
    for (int i = 0; i < OBJECTS; i++)
        put(objects[i]);
    bin_check(&bin);
    CHECK(bin.filled == bin.drained);
    bin_trim(&bin, true);
    pages_purge(&pages, 0);
}

// Whether some buffer on that page of a slab is used, or partly on it.
static bool page_is_used(const bool *used, size_t count, size_t size, size_t page) {
    bool any = false;

    for (size_t i = 0; i < count; i++)
        any |= used[i] && i * size < (page + 1) * os_page_size() && (i + 1) * size > page * os_page_size();
    return any;
}

// Of a slab whose buffers are used but for those on one page, that page goes, the last one too, and no other that a used buffer reaches.
static void each_page_alone(unsigned class) {
    size_t size = class_size(class), page = os_page_size();
    uintptr_t start = UINTPTR_MAX;
    bool later;

    bin_make(class);
    if (bin.shape.slab_bytes == page)
        return;
    start = (uintptr_t)take() / page * page; // the lowest
    const size_t count = bin.shape.buffers, pages_of_slab = bin.shape.slab_bytes / page;
    static bool used[1 << 16];

    for (size_t i = 1; i < count; i++)
        take();
    CHECK(bin.slabs == 1 && bin.free_buffers == 0 && count <= sizeof used);
    for (size_t at = 0; at < pages_of_slab; at++) {
        size_t expected = 0, freed = 0;

        memset(used, true, sizeof used);
        for (size_t i = 0; i < count; i++)
            if (i * size < (at + 1) * page && (i + 1) * size > at * page) {
                used[i] = false;
                put((void *)(start + i * size));
                freed++;
            }
        for (size_t other = 0; other < pages_of_slab; other++)
            expected += !page_is_used(used, count, size, other);
        CHECK(freed > 0 && expected > 0);
        CHECK_EQ(give_all(true, &later), freed < count ? expected * page : 0); // an empty slab is none of theirs
        bin_check(&bin);
        while (freed-- > 0)
            take();
    }
    for (size_t i = 0; i < count; i++)
        put((void *)(start + i * size));
    bin_trim(&bin, true);
    pages_purge(&pages, 0);
}

// What a bin in use may keep goes once it rests.
static void a_resting_bin_keeps_none(void) {
    enum { FEW = 100 }; // more than a page of the largest, less than the floor
    unsigned class = size_class(1000);

    bin_make(class);
    for (int i = 0; i < FEW; i++)
        objects[i] = take();
    for (int i = 1; i < FEW; i++)
        put(objects[i]);
    CHECK(bin_begin_walk(&bin)); // later: they were just taken
    CHECK(!bin_has_holes(&bin, false) && bin_has_holes(&bin, true));
    CHECK(!bin_begin_walk(&bin));
    CHECK(bin_has_holes(&bin, false));
    put(take());
    CHECK(bin_begin_walk(&bin) && !bin_has_holes(&bin, false));
    put(objects[0]);
    bin_trim(&bin, true);
    pages_purge(&pages, 0);
}

static _Atomic bool stop;

static void *give_again_and_again(void *unused) {
    bool later;

    while (!atomic_load(&stop))
        give_all(true, &later);
    return unused;
}

static void threads_lose_nothing(void) {
    unsigned class = size_class(1000);
    size_t size = class_size(class);
    pthread_t thread;

    bin_make(class);
    for (int i = 0; i < OBJECTS; i++)
        memset(objects[i] = take(), i, size);
    pthread_create(&thread, NULL, give_again_and_again, NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        int picked[BATCH];

        for (int i = 0; i < BATCH; i++) {
            int at = picked[i] = (int)random_below(&random_source, OBJECTS);

            if (objects[at] == NULL)
                continue;
            CHECK(objects[at][0] == (unsigned char)at && objects[at][size - 1] == (unsigned char)at);
            put(objects[at]);
            objects[at] = NULL;
        }
        if (turn % 100 < 60)
            continue; // the heap shrinks for a while, then grows
        for (int at = 0; at < OBJECTS; at++)
            if (objects[at] == NULL && random_below(&random_source, 10) == 0)
                memset(objects[at] = take(), at, size);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    for (int at = 0; at < OBJECTS; at++)
        if (objects[at] != NULL)
            put(objects[at]);
    bin_check(&bin);
    CHECK(bin.filled == bin.drained);
}

int main(void) {
    CHECK(heap_ready());
    survivors_keep_their_contents(size_class(1000));
    survivors_keep_their_contents(size_class(200));
    survivors_keep_their_contents(size_class(9000));
    for (unsigned class = 1; class < SLAB_CLASSES; class++)
        each_page_alone(class);
    a_resting_bin_keeps_none();
    threads_lose_nothing();
    return 0;
}
