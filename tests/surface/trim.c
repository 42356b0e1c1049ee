// malloc_trim really gives memory back: resident memory falls to what is in use, and a second call has nothing to do.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"

enum { MEBIBYTE = 1 << 20, SPAN = 64 * MEBIBYTE, SLACK = 3 * MEBIBYTE };

static void **take(size_t size, size_t count) {
    void **blocks = malloc(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 0x77, size);
    }
    return blocks;
}

// Takes 64 MiB of one size, frees it all, trims: nothing of it may stay.
static void check_size(size_t size) {
    size_t count = SPAN / size;
    malloc_trim(0);
    long before = anonymous_bytes();
    void **blocks = take(size, count);
    CHECK_GE(anonymous_bytes(), before + SPAN - MEBIBYTE);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    free(blocks);
    malloc_trim(0);
    long after = anonymous_bytes();
    CHECK_SAY(after - before < SLACK, "size %zu: %ld KiB before, %ld KiB after trim", size, before / 1024, after / 1024);
}

// One block in every mebibyte stays: the pages around them must go.
static void check_sparse(size_t size) {
    size_t count = SPAN / size, stride = MEBIBYTE / size;
    void **blocks = take(size, count);
    malloc_trim(0);
    long before = anonymous_bytes();
    for (size_t i = 0; i < count; i++)
        if (i % stride == 0)
            pattern_fill(blocks[i], size, i);
        else
            free(blocks[i]);
    malloc_trim(0);
    long freed = before - anonymous_bytes();
    CHECK_SAY(freed > SPAN / 4 * 3, "size %zu: only %ld KiB of %d came back", size, freed / 1024, SPAN / 1024);
    for (size_t i = 0; i < count; i += stride) {
        pattern_verify(blocks[i], size, i);
        free(blocks[i]);
    }
    free(blocks);
}

int main(void) {
    check_size(32);
    check_size(100);
    check_size(1024);
    check_size(5000);
    check_size(65536);
    check_size(MEBIBYTE);
    check_size(32 * MEBIBYTE);
    check_sparse(32);
    check_sparse(512);
    check_sparse(16384);
    CHECK_EQ(malloc_trim(0) & ~1, 0);
    malloc_trim(0);
    CHECK_EQ(malloc_trim(0), 0);
    CHECK_EQ(malloc_trim(SIZE_MAX) & ~1, 0);
    return 0;
}
