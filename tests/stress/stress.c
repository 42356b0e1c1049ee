// Random calls of the whole family from many threads, every block's contents verified; threads free what others allocated.
// `stress [--threads N] [--seconds S] [--seed X] [--profile small|mixed|large] [--emulator KIB]`; the seed is printed first. An emulator keeps so much of each
// thread that lived.
// Blocks live in shared slots.  A thread takes a slot's block by an atomic exchange, so each block has one owner at a time;
// its contents follow from its address and the seed, so that two live blocks that overlap cannot both verify.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"
#include "../support/sizes.h"

#include <pthread.h>
#include <time.h>

enum { SLOTS = 4096, MOST_THREADS = 64, CALLS_OF_A_LIFE = 20000, MEBIBYTE = 1 << 20 };

struct block {
    size_t size;
    size_t alignment;
    uint64_t seed;
};

struct slot {
    _Atomic(void *) start;
    struct block block;
    _Atomic int busy;
};

struct profile {
    const char *name;
    size_t limits[4]; // sizes: half below the first, a quarter below the second, …
    size_t slots;
};

static const struct profile profiles[] = {
    {"small", {64, 256, 1024, 16384}, SLOTS},
    {"mixed", {128, 2048, 40000, 1 * MEBIBYTE}, 1024},
    {"large", {40000, 300000, 2 * MEBIBYTE, 20 * MEBIBYTE}, 64},
};

static struct slot slots[SLOTS];
static const struct profile *profile = &profiles[1];
static uint64_t seed;
static time_t deadline;
static _Atomic long calls;
static _Atomic uint64_t lives;

static size_t pick_size(uint64_t *random) {
    size_t level = (size_t)__builtin_ctzll(random_next(random) | 8);
    return random_below(random, profile->limits[level] + 1);
}

static void *allocate(struct block *block, uint64_t *random) {
    void *start = NULL;
    block->size = pick_size(random);
    block->alignment = 0;
    switch (random_below(random, 8)) {
    case 0:
        start = calloc(1, block->size);
        for (size_t i = 0; i < block->size; i += i < 4096 ? 1 : 997)
            CHECK_SAY(((char *)start)[i] == 0, "calloc(%zu) = %p: byte %zu is not zero", block->size, start, i);
        break;
    case 1:
        block->alignment = (size_t)8 << random_below(random, 11);
        CHECK_EQ(posix_memalign(&start, block->alignment, block->size), 0);
        CHECK_EQ((uintptr_t)start % block->alignment, 0);
        break;
    case 2:
        start = realloc(NULL, block->size);
        break;
    default:
        start = malloc(block->size);
    }
    CHECK_SAY(start != NULL, "no memory for %zu bytes", block->size);
    CHECK_GE(malloc_usable_size(start), block->size);
    return start;
}

static void mark(void *start, struct block *block, uint64_t *random) {
    block->seed = pattern_mix((uintptr_t)start) ^ random_next(random);
    pattern_fill(start, block->size, block->seed);
}

static void release(void *start, const struct block *block, uint64_t *random) {
    pattern_verify(start, block->size, block->seed);
    if (random_below(random, 3) != 0)
        free(start);
    else if (block->alignment != 0)
        free_aligned_sized(start, block->alignment, block->size);
    else
        free_sized(start, block->size);
}

static void *resize(void *start, struct block *block, uint64_t *random) {
    size_t size = pick_size(random) + 1;
    pattern_verify(start, block->size, block->seed);
    void *moved = realloc(start, size);
    CHECK_SAY(moved != NULL, "no memory for %zu bytes", size);
    pattern_verify_prefix(moved, block->size, size, block->seed);
    block->size = size;
    block->alignment = 0;
    return moved;
}

// One call on one slot; whoever finds the slot busy takes another.
static void step(uint64_t *random) {
    struct slot *slot = &slots[random_below(random, profile->slots)];
    if (slot->busy++ == 0) {
        void *start = slot->start;
        if (start == NULL) {
            start = allocate(&slot->block, random);
            mark(start, &slot->block, random);
        } else if (random_below(random, 4) == 0) {
            start = resize(start, &slot->block, random);
            mark(start, &slot->block, random);
        } else {
            release(start, &slot->block, random);
            start = NULL;
        }
        slot->start = start;
    }
    slot->busy--;
}

// Lives follow each other in a thread's place, so that threads end while what they allocated lives on.
static void *life(void *unused) {
    uint64_t random = pattern_mix(seed + ++lives) | 1;
    int done = 0;
    for (; done < CALLS_OF_A_LIFE && time(NULL) < deadline; done++)
        step(&random);
    calls += done;
    return unused;
}

static void run(int threads) {
    pthread_t running[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_create(&running[i], NULL, life, NULL), 0);
    for (int next = 0; time(NULL) < deadline; next = (next + 1) % threads) {
        CHECK_EQ(pthread_join(running[next], NULL), 0);
        CHECK_EQ(pthread_create(&running[next], NULL, life, NULL), 0);
    }
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_join(running[i], NULL), 0);
}

static void finish(void) {
    uint64_t random = seed | 1;
    for (size_t i = 0; i < profile->slots; i++)
        if (slots[i].start != NULL)
            release(slots[i].start, &slots[i].block, &random);
    malloc_trim(0);
}

static const struct profile *profile_named(const char *name) {
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    SKIP("no profile %s", name);
}

int main(int count, char **arguments) {
    int threads = 4, seconds = 5, emulator_kib = 0;
    seed = (uint64_t)time(NULL);
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--threads") == 0)
            threads = atoi(arguments[i + 1]);
        else if (strcmp(arguments[i], "--seconds") == 0)
            seconds = atoi(arguments[i + 1]);
        else if (strcmp(arguments[i], "--seed") == 0)
            seed = strtoull(arguments[i + 1], NULL, 0);
        else if (strcmp(arguments[i], "--emulator") == 0)
            emulator_kib = atoi(arguments[i + 1]);
        else if (strcmp(arguments[i], "--profile") == 0)
            profile = profile_named(arguments[i + 1]);
    }
    CHECK(threads > 0 && threads <= MOST_THREADS);
    say("stress --threads %d --seconds %d --seed %llu --profile %s", threads, seconds, (unsigned long long)seed, profile->name);
    alarm((unsigned)seconds + 600);
    deadline = time(NULL) + seconds;
    long before = anonymous_bytes();
    run(threads);
    finish();
    long after = anonymous_bytes();
    say("%ld calls, %llu threads lived; resident %+ld KiB", calls, (unsigned long long)lives, (after - before) / 1024);
    CHECK_LE(after - before, 8 * MEBIBYTE + (long)lives * emulator_kib * 1024);
    return 0;
}
