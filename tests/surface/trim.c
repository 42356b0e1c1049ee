// malloc_trim really gives memory back: resident memory falls to what is in use, and a second call has nothing to do.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"

#include <time.h>

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

static double processor_seconds(void) {
    struct timespec time;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time), 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds_of_trims(void) {
    double begin = processor_seconds();
    for (int i = 0; i < 20; i++)
        malloc_trim(0);
    return processor_seconds() - begin;
}

// What large objects have of addresses does not take time.
static void check_quick(void) {
    double before = seconds_of_trims();
    void *block = malloc((size_t)16 << 30);
    if (block == NULL)
        return; // a machine that gives no such thing
    double between = seconds_of_trims();
    free(block);
    CHECK_SAY(between < 3 * before + 0.1, "20 trims take %f s, and %f s with a large object", before, between);
}

int main(void) {
    check_quick();
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
