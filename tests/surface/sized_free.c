// free_sized and free_aligned_sized with the right sizes: every class, recycled afterwards; NULL does nothing.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"
#include "../support/sizes.h"

static void check_sized(size_t size) {
    enum { BLOCKS = 40 };
    void *blocks[BLOCKS];
    size_t count = size > 1 << 20 ? 2 : BLOCKS;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = i % 2 ? malloc(size) : calloc(1, size);
        pattern_fill(blocks[i], size, (uintptr_t)blocks[i]);
    }
    for (size_t i = 0; i < count; i++) {
        pattern_verify(blocks[i], size, (uintptr_t)blocks[i]);
        free_sized(blocks[i], size);
    }
}

// A block that realloc returned is freed with the size that realloc was given.
static void check_after_realloc(size_t size) {
    void *block = realloc(malloc(100), size + 1);
    CHECK(block != NULL);
    free_sized(block, size + 1);
    block = realloc(malloc(2 * size + 1), size + 1);
    CHECK(block != NULL);
    free_sized(block, size + 1);
}

static void check_aligned_sized(size_t size) {
    for (size_t alignment = 8; alignment <= 65536; alignment *= 4) {
        void *block = aligned_alloc(alignment, size);
        CHECK(block != NULL);
        pattern_fill(block, size, alignment);
        pattern_verify(block, size, alignment);
        free_aligned_sized(block, alignment, size);
    }
}

static void check_given_back(void) {
    volatile size_t size = 100000;
    for (int i = 0; i < 200000; i++) {
        void *block = malloc(size);
        memset(block, 1, 64);
        free_sized(block, size);
        block = aligned_alloc(256, size);
        memset(block, 1, 64);
        free_aligned_sized(block, 256, size);
    }
    CHECK_LT(resident_bytes(), 128 << 20);
}

int main(void) {
    free_sized(NULL, 100);
    free_aligned_sized(NULL, 64, 100);
    for (size_t size = 0; size <= 5000; size++)
        check_sized(size);
    each_class_size((size_t)8 << 20, check_sized);
    each_class_size((size_t)8 << 20, check_after_realloc);
    each_class_size((size_t)1 << 20, check_aligned_sized);
    check_given_back();
    return 0;
}
