// A bit of everything the malloc family does, at a time when any request for memory may fail; run by inject.c and limits.py.
// Every call gives NULL with ENOMEM or works and leaves errno alone; contents always hold; afterwards all is freed and all is to be had again.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

#include <pthread.h>

#include "window.h"

enum { SLOTS = 40, STEPS = 120, THREADS = 2 };

struct block {
    void *start;
    size_t size;
};

static size_t pick_size(uint64_t *random) {
    static const size_t limits[] = {64, 1024, 16384, 100000, 600000, 3 << 20};
    static const size_t weights[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5};
    return random_below(random, limits[weights[random_below(random, 16)]]) + 1;
}

enum { UNTOUCHED = 4711 }; // errno before each call

// The new block if there was one; else the complaint must be ENOMEM. What was refused on the way to a block is not told.
static void *expect_memory(void *start) {
    CHECK_EQ(errno, start == NULL ? ENOMEM : UNTOUCHED);
    return start;
}

static void *allocate(uint64_t *random, size_t size) {
    void *start = NULL;
    int result;
    errno = UNTOUCHED;
    switch (random_below(random, 4)) {
    case 0:
        start = expect_memory(calloc(1, size));
        CHECK(start == NULL || (((char *)start)[0] == 0 && ((char *)start)[size - 1] == 0));
        return start;
    case 1:
        return expect_memory(aligned_alloc((size_t)16 << random_below(random, 10), size));
    case 2:
        result = posix_memalign(&start, 64, size);
        CHECK(result == ENOMEM ? start == NULL : result == 0);
        CHECK_EQ(errno, result == 0 ? UNTOUCHED : ENOMEM); // as with glibc and musl
        return start;
    default:
        return expect_memory(malloc(size));
    }
}

static void take(struct block *block, uint64_t *random) {
    size_t size = pick_size(random);
    block->start = allocate(random, size);
    block->size = size;
    if (block->start != NULL)
        pattern_fill(block->start, size, (uintptr_t)block);
}

static void resize(struct block *block, uint64_t *random) {
    size_t size = pick_size(random);
    errno = UNTOUCHED;
    void *moved = expect_memory(realloc(block->start, size));
    if (moved == NULL) {
        pattern_verify(block->start, block->size, (uintptr_t)block);
        return;
    }
    pattern_verify_prefix(moved, block->size, size, (uintptr_t)block);
    pattern_fill(moved, size, (uintptr_t)block);
    *block = (struct block){moved, size};
}

static void give_back(struct block *block) {
    pattern_verify(block->start, block->size, (uintptr_t)block);
    errno = UNTOUCHED;
    free(block->start);
    CHECK_EQ(errno, UNTOUCHED);
    block->start = NULL;
}

static void *exercise(void *argument) {
    static struct block all_slots[THREADS + 1][SLOTS];
    struct block *slots = all_slots[(uintptr_t)argument];
    uint64_t random = (uintptr_t)argument * 77 + 5;
    for (int step = 0; step < STEPS; step++) {
        struct block *block = &slots[random_below(&random, SLOTS)];
        if (block->start == NULL)
            take(block, &random);
        else if (random_below(&random, 3) == 0)
            resize(block, &random);
        else
            give_back(block);
        if (step % 30 == 29)
            malloc_trim(0);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].start != NULL)
            give_back(&slots[i]);
    return NULL;
}

// A thread that cannot be made is not our business; what it does is.
static void exercise_all(void) {
    pthread_t threads[THREADS];
    int made = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[made], NULL, exercise, (void *)(i + 1)) == 0)
            made++;
    exercise(NULL);
    for (int i = 0; i < made; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

// With the failures over, nothing may refuse any more.
static void everything_works(void) {
    void *blocks[40];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            size_t size = (size_t)1 << (i / 2);
            blocks[i] = i % 2 ? malloc(size) : aligned_alloc(256, size);
            CHECK_SAY(blocks[i] != NULL, "%zu bytes refused with nothing failing any more: errno %d", size, errno);
            pattern_fill(blocks[i], size, i);
        }
        for (int i = 0; i < 40; i++) {
            pattern_verify(blocks[i], (size_t)1 << (i / 2), i);
            free(blocks[i]);
        }
    }
}

int main(void) {
    alarm(600);
    prctl(WINDOW_OPEN);
    exercise_all();
    prctl(WINDOW_CLOSE);
    everything_works();
    return 0;
}
