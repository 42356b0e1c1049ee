// Tests heap/kept.h, for those the thread does not keep itself (heap/own_runs.h): a freed run is handed out again, counts as dirty, is known to be free, decays, and is bounded.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/kept.h"

#include <pthread.h>
#include <unistd.h>

#include "../../support/child.h"
#include "conf/options.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "pages/page_map.h"
#include "unit.h"

enum { KIB = 1024, MIB = 1024 * KIB, FLOOR = 256 * KIB };

static void *volatile sink;

// Past the thread's own runs, which free would keep.
static void release(void *object) {
    heap_free(object, "free");
}

static void *allocate(size_t size) {
    return sink = malloc(size);
}

static struct pages *own_pages(void) {
    return &words.front->arena->pages;
}

static size_t kept(void) {
    return own_pages()->kept_bytes;
}

static void same_run_again(void) {
    char *first = allocate(192 * KIB), *second;
    size_t active = pages_active_bytes(own_pages()), dirty = pages_dirty_bytes(own_pages());

    first[0] = 1;
    release(first);
    CHECK_EQ(kept(), 192 * KIB);
    CHECK_EQ(pages_active_bytes(own_pages()), active - 192 * KIB);
    CHECK_EQ(pages_dirty_bytes(own_pages()), dirty + 192 * KIB);
    CHECK_EQ(page_map_word(first), 0);
    CHECK(page_map_run(first) == NULL); // a second free is told
    second = allocate(190 * KIB); // of the same class
    CHECK(second == first && heap_usable_size(second, "test") == 192 * KIB);
    CHECK_EQ(kept(), 0);
    CHECK_EQ(pages_active_bytes(own_pages()), active);
    release(second);
    second = calloc(1, 192 * KIB);
    CHECK(second == first && second[0] == 0);
    CHECK_EQ((uintptr_t)(second = realloc(second, 256 * KIB)) % GRANULE_BYTES, 0);
    release(second);
    heap_trim();
}

static void one_of_each_size(void) {
    char *first = allocate(128 * KIB), *second = allocate(128 * KIB), *other = allocate(96 * KIB);

    release(first);
    release(second);
    release(other);
    CHECK_EQ(kept(), 128 * KIB + round_up(96 * KIB, os_page_size()));
    CHECK(allocate(128 * KIB) == second);
    release(second);
    second = aligned_alloc(128 * KIB, 128 * KIB); // not at the alignment that the kept one may have by chance
    CHECK_EQ(kept(), 128 * KIB + round_up(96 * KIB, os_page_size()));
    release(second);
    CHECK(heap_trim());
    CHECK_EQ(kept(), 0);
    CHECK_EQ(pages_dirty_bytes(own_pages()), 0);
}

static void bounded(void) {
    size_t sizes[] = { 1 * MIB, 896 * KIB, 768 * KIB, 640 * KIB, 512 * KIB, 448 * KIB, 384 * KIB, 320 * KIB };
    void *objects[8];
    size_t most;

    for (int i = 0; i < 8; i++)
        objects[i] = allocate(sizes[i]);
    most = FLOOR + pages_active_bytes(own_pages()) / 32;
    for (int i = 7; i >= 0; i--) {
        release(objects[i]);
        CHECK_LE(kept(), most);
    }
    CHECK_EQ(kept(), 320 * KIB); // as long as more was in use
    heap_trim();
    release(allocate(2 * MIB));
    release(allocate(80 * KIB - 1));
    CHECK_LE(kept(), FLOOR + MIB / 32);
    heap_trim();
}

// A step of decay leaves what was put since the last one; the next gives it up, and then it decays as other dirty pages do.
static void decays(void) {
    struct arena *arena = words.front->arena;
    uint64_t now = os_clock_ms() + (uint64_t)options.dirty_decay_ms; // a step is due, whatever came before
    size_t dirty;

    reclaim_decay(arena, now);
    release(allocate(192 * KIB));
    reclaim_decay(arena, now += (uint64_t)options.dirty_decay_ms / 8);
    CHECK_EQ(kept(), 192 * KIB);
    dirty = pages_dirty_bytes(own_pages());
    CHECK_GE(dirty, 192 * KIB);
    reclaim_decay(arena, now += (uint64_t)options.dirty_decay_ms / 8);
    CHECK_EQ(kept(), 0);
    CHECK_LT(pages_dirty_bytes(own_pages()), dirty);
    reclaim_decay(arena, now += (uint64_t)options.dirty_decay_ms * 2);
    reclaim_decay(arena, now += (uint64_t)options.dirty_decay_ms * 2);
    CHECK_EQ(pages_dirty_bytes(own_pages()), 0);
}

static void not_everywhere(void) {
    ssize_t before = own_pages()->dirty_decay_ms;

    own_pages()->dirty_decay_ms = 0; // pages go back at once
    release(allocate(192 * KIB));
    CHECK_EQ(kept(), 0);
    own_pages()->dirty_decay_ms = before;
    words.front->arena->is_explicit = true;
    release(allocate(192 * KIB));
    CHECK_EQ(kept(), 0);
    words.front->arena->is_explicit = false;
}

// Of sampled objects all are kept, the last freed first; a step of decay leaves those that were put since the one before.
static void samples_behind_one_another(void) {
    struct arena *arena = words.front->arena;
    uint64_t now = os_clock_ms() + (uint64_t)options.dirty_decay_ms * 100; // later than any step before
    void *objects[3];

    heap_trim();
    reclaim_decay(arena, now);
    for (int i = 0; i < 3; i++)
        objects[i] = large_alloc(arena, 48, 0, 0, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK(large_keep(arena, objects[i], "test"));
        CHECK_EQ(kept(), (size_t)(i + 1) * os_page_size());
    }
    CHECK(large_alloc(arena, 64, 0, 0, NULL) == objects[2]);
    CHECK(large_alloc(arena, os_page_size(), 0, 0, NULL) == objects[1]);
    reclaim_decay(arena, now += (uint64_t)options.dirty_decay_ms / 8);
    CHECK_EQ(kept(), os_page_size()); // put since
    CHECK(large_keep(arena, objects[1], "test"));
    reclaim_decay(arena, now += (uint64_t)options.dirty_decay_ms / 8);
    CHECK_EQ(kept(), os_page_size());
    CHECK(large_alloc(arena, 48, 0, 0, NULL) == objects[1]);
    CHECK(large_keep(arena, objects[1], "test"));
    CHECK(large_keep(arena, objects[2], "test"));
    heap_trim();
    CHECK_EQ(kept(), 0);
}

enum { TURNS = 20000, THREADS = 3, HELD = 16 };

static void *takes_and_puts(void *argument) {
    struct arena *arena = argument;
    char *held[HELD] = { NULL };

    for (unsigned turn = 0; turn < TURNS; turn++) {
        char **at = &held[turn * 7 % 13 % HELD];

        if (*at != NULL) {
            CHECK(**at == (char)(turn * 7 % 13));
            CHECK(large_keep(arena, *at, "test") || (large_free(*at, "test"), true));
        }
        *at = (turn & 3) != 0 ? large_alloc(arena, 48, 0, 0, NULL) : NULL;
        if (*at != NULL)
            **at = (char)(turn * 7 % 13);
        if (turn % 64 == 0)
            kept_give(arena, turn % 1024 == 0);
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != NULL)
            large_free(held[i], "test");
    return NULL;
}

// Nobody gets what another has.
static void by_several_threads(void) {
    struct arena *arena = words.front->arena;
    size_t active;
    pthread_t threads[THREADS];

    heap_trim();
    active = pages_active_bytes(own_pages());
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, takes_and_puts, arena);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kept_give(arena, true);
    CHECK_EQ(kept(), 0);
    CHECK_LE(pages_active_bytes(own_pages()), active + MIB);
}

static void *rest(void *unused) {
    pause();
    return unused;
}

// Where a thread was between the count and the slot.
static void counted_anew_in_a_child(void) {
    pthread_t thread;
    pid_t child;

    heap_trim();
    CHECK_EQ(pthread_create(&thread, NULL, rest, NULL), 0); // else nothing is made up for in the child
    release(allocate(192 * KIB));
    own_pages()->kept_bytes += 96 * KIB;
    child = fork();
    if (child == 0)
        _exit(kept() != 192 * KIB);
    own_pages()->kept_bytes -= 96 * KIB;
    expect_child(child);
    heap_trim();
    CHECK_EQ(kept(), 0);
}

int main(void) {
    options.background_thread = false;
    free(malloc(1));
    CHECK(words.front != NULL);
    same_run_again();
    one_of_each_size();
    bounded();
    decays();
    not_everywhere();
    samples_behind_one_another();
    by_several_threads();
    counted_anew_in_a_child();
    return 0;
}
