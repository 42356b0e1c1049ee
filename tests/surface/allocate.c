// malloc and free of every size: alignment, uniqueness, whole block usable, blocks do not overlap, free(NULL).
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

enum { BLOCKS = 64 };

// C23 and all compilers: aligned for any object that fits; 16 at most, as max_align_t.
static size_t natural_alignment(size_t size) {
    return size > 8 ? 16 : 8;
}

static void check_size(size_t size) {
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    CHECK_SAY((uintptr_t)block % natural_alignment(size) == 0, "malloc(%zu) = %p", size, (void *)block);
    pattern_fill(block, size, (uintptr_t)block);
    pattern_verify(block, size, (uintptr_t)block);
    free(block);
}

// Many blocks of one size alive at once, each with contents that name its address.
static void check_no_overlap(size_t size) {
    void *blocks[BLOCKS];
    size_t count = size > 1 << 20 ? 4 : BLOCKS;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], size, (uintptr_t)blocks[i]);
    }
    for (size_t i = 0; i < count; i++)
        pattern_verify(blocks[i], size, (uintptr_t)blocks[i]);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

static void check_zero_bytes_unique(void) {
    void *blocks[1000];
    for (int i = 0; i < 1000; i++) {
        blocks[i] = malloc(0);
        CHECK(blocks[i] != NULL);
        for (int j = i - 1; j >= 0 && j > i - 20; j--)
            CHECK(blocks[i] != blocks[j]);
    }
    for (int i = 0; i < 1000; i++)
        free(blocks[i]);
}

// A block stays whole while the heap around it is churned.
static void check_survives_churn(void) {
    enum { KEPT = 500, ROUNDS = 20000 };
    static void *kept[KEPT];
    static size_t sizes[KEPT];
    uint64_t random = 42;
    for (int i = 0; i < KEPT; i++) {
        sizes[i] = 1 + random_below(&random, 5000);
        kept[i] = malloc(sizes[i]);
        pattern_fill(kept[i], sizes[i], (uintptr_t)kept[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = random_below(&random, 40000);
        void *block = malloc(size);
        memset(block, 0xEE, size);
        free(block);
    }
    for (int i = 0; i < KEPT; i++) {
        pattern_verify(kept[i], sizes[i], (uintptr_t)kept[i]);
        free(kept[i]);
    }
}

int main(void) {
    free(NULL);
    for (size_t size = 0; size <= 20000; size++)
        check_size(size);
    each_class_size((size_t)64 << 20, check_size);
    each_class_size((size_t)8 << 20, check_no_overlap);
    check_zero_bytes_unique();
    check_survives_churn();
    return 0;
}
