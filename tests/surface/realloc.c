// realloc and reallocarray: contents kept for growth and shrinkage over all classes to 8 MiB; edges; failure keeps the block.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"
#include "../support/sizes.h"

static const size_t limit = (size_t)8 << 20;

static void check_step(size_t from, size_t to) {
    void *block = malloc(from);
    CHECK(block != NULL);
    uint64_t seed = pattern_mix(from * 31 + to);
    pattern_fill(block, from, seed);
    void *moved = realloc(block, to);
    CHECK(moved != NULL);
    pattern_verify_prefix(moved, from, to, seed);
    CHECK_GE(malloc_usable_size(moved), to);
    memset(moved, 0x5A, to < 4096 ? to : 4096);
    free(moved);
}

// Each class to each class.
static void check_all_pairs(void) {
    for (size_t from = 8; from <= limit; from = class_of(from + 1))
        for (size_t to = 8; to <= limit; to = class_of(to + 1)) {
            check_step(from, to);
            check_step(from, to - 1);
        }
}

// One block grows and shrinks by small steps; neighbours are in the way every now and then.
static void check_walk(size_t step, size_t walk_limit) {
    void *block = malloc(1), *neighbours[64] = {0};
    size_t size = 1, count = 0;
    uint64_t seed = step;
    pattern_fill(block, size, seed);
    for (int direction = 0; direction < 2; direction++) {
        while (direction == 0 ? size + step <= walk_limit : size > step) {
            size_t next = direction == 0 ? size + step : size - step;
            block = realloc(block, next);
            CHECK(block != NULL);
            pattern_verify_prefix(block, size, next, seed);
            size = next;
            pattern_fill(block, size, ++seed);
            void **neighbour = &neighbours[count++ % 64];
            free(*neighbour);
            *neighbour = malloc(next);
        }
    }
    free(block);
    for (int i = 0; i < 64; i++)
        free(neighbours[i]);
}

static void check_null_is_malloc(void) {
    void *block = realloc(NULL, 100);
    CHECK(block != NULL);
    memset(block, 1, 100);
    free(block);
    block = realloc(NULL, 0);
    CHECK(block != NULL);
    free(block);
}

// As on glibc: realloc(p, 0) frees and gives NULL.  Were it not freed, 100 GiB would be held here.
static void check_zero_frees(void) {
    volatile size_t zero = 0;
    for (int i = 0; i < 100000; i++) {
        void *block = malloc(1 << 20);
        CHECK(block != NULL);
        memset(block, 1, 100);
        CHECK(realloc(block, zero) == NULL);
    }
    for (int i = 0; i < 1000000; i++)
        CHECK(realloc(malloc(64), zero) == NULL);
    CHECK_LT(resident_bytes(), 256 << 20);
}

static void check_failure_keeps(size_t size, size_t impossible) {
    void *block = malloc(size);
    pattern_fill(block, size, size);
    errno = 0;
    CHECK(realloc(block, impossible) == NULL);
    CHECK_EQ(errno, ENOMEM);
    pattern_verify(block, size, size);
    errno = 0;
    CHECK(reallocarray(block, SIZE_MAX / 4, 8) == NULL);
    CHECK_EQ(errno, ENOMEM);
    pattern_verify(block, size, size);
    free(block);
}

static void check_failures(void) {
    static const size_t sizes[] = {1, 100, 5000, 100000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_failure_keeps(sizes[i], (size_t)PTRDIFF_MAX + 1);
        check_failure_keeps(sizes[i], SIZE_MAX);
        check_failure_keeps(sizes[i], (size_t)PTRDIFF_MAX);
    }
}

static void check_reallocarray(void) {
    int *block = reallocarray(NULL, 100, sizeof *block);
    CHECK(block != NULL);
    for (int i = 0; i < 100; i++)
        block[i] = i;
    block = reallocarray(block, 10000, sizeof *block);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(block[i], i);
    free(block);
}

// A block of an aligned allocation may be reallocated; its contents move, its alignment need not.
static void check_aligned_source(void) {
    for (size_t alignment = 16; alignment <= 1 << 21; alignment *= 2) {
        void *block = aligned_alloc(alignment, 10000);
        CHECK(block != NULL);
        pattern_fill(block, 10000, alignment);
        block = realloc(block, 300000);
        CHECK(block != NULL);
        pattern_verify_prefix(block, 10000, 300000, alignment);
        block = realloc(block, 50);
        pattern_verify_prefix(block, 10000, 50, alignment);
        free(block);
    }
}

int main(void) {
    check_null_is_malloc();
    check_zero_frees();
    check_failures();
    check_reallocarray();
    check_aligned_source();
    check_walk(1, 20000);
    check_walk(24, 40000);
    check_walk(4095, (size_t)1 << 20);
    check_walk(65521, limit);
    check_all_pairs();
    return 0;
}
