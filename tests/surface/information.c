// mallopt, mallinfo, mallinfo2, malloc_stats: answers that are plausible and move with what the program does.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"

#include <fcntl.h>
#include <limits.h>

enum { MEBIBYTE = 1 << 20, BLOCKS = 16 };

// uordblks and hblkhd together are what the program holds, on glibc as here.
static size_t used_bytes(void) {
    struct mallinfo2 information = mallinfo2();
    return information.uordblks + information.hblkhd;
}

static void check_moves(size_t size) {
    void *blocks[BLOCKS];
    size_t before = used_bytes();
    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(size)) != NULL);
    size_t between = used_bytes();
    CHECK_SAY(between >= before + BLOCKS * size, "size %zu: %zu before, %zu with %d blocks", size, before, between, BLOCKS);
    CHECK_LE(between, before + BLOCKS * size * 5 / 4 + MEBIBYTE);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    size_t after = used_bytes();
    CHECK_SAY(after < between - BLOCKS * size / 2, "size %zu: %zu with blocks, %zu after free", size, between, after);
}

static void check_sums(void) {
    void *small = malloc(20000);
    CHECK_GE(mallinfo2().uordblks, 20000);
    free(small);
    void *block = malloc(10 * MEBIBYTE);
    memset(block, 1, 10 * MEBIBYTE);
    struct mallinfo2 information = mallinfo2();
    CHECK_GE(information.arena + information.hblkhd, information.uordblks);
    CHECK_GE(information.arena, information.fordblks);
    CHECK_GE(information.hblks, 1);
    CHECK_GE(information.hblkhd, 10 * MEBIBYTE);
    CHECK_GE(information.arena, information.uordblks);
    free(block);
    CHECK_LE(mallinfo2().hblkhd, information.hblkhd - 10 * MEBIBYTE);
}

// The old structure has ints; up to 2 GiB both tell the same.
static void check_old_structure(void) {
    struct mallinfo old = mallinfo();
    struct mallinfo2 information = mallinfo2();
    CHECK_LE(labs((long)(unsigned)old.uordblks - (long)information.uordblks), MEBIBYTE);
    CHECK_GE(old.uordblks, 0);
}

static void check_options(void) {
    enum { mxfast = 1 }; // M_MXFAST, which musl's header has not
    CHECK_EQ(mallopt(M_MMAP_THRESHOLD, 256 * 1024), 1);
    CHECK_EQ(mallopt(M_TRIM_THRESHOLD, 256 * 1024), 1);
    CHECK_EQ(mallopt(M_ARENA_MAX, 2), 1);
    CHECK_EQ(mallopt(mxfast, 160), 1);
    CHECK_EQ(mallopt(mxfast, 161), 0);
    CHECK_EQ(mallopt(mxfast, -1), 0);
    // What no parameter has: M_KEEP, which glibc's header names and nothing heeds, and numbers that are none. oneTBB's tests ask for 0.
    CHECK_EQ(mallopt(4, 1), 1);
    CHECK_EQ(mallopt(0, 0), 1);
    CHECK_EQ(mallopt(-100, 1), 1);
    void *block = malloc(1000000);
    CHECK(block != NULL);
    free(block);
}

// malloc_stats tells something on stderr, and nothing on stdout.
static void check_stats(void) {
    char path[] = "/tmp/vmag-test-stats-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    unlink(path);
    int saved = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    malloc_stats();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char text[4096];
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK_GT(length, 20);
    text[length] = 0;
    CHECK(strchr(text, '\n') != NULL && strpbrk(text, "0123456789") != NULL);
    close(file);
}

int main(void) {
    check_moves(100000);
    check_moves(4 * MEBIBYTE);
    check_moves(60 * MEBIBYTE);
    check_sums();
    check_old_structure();
    check_options();
    check_stats();
    return 0;
}
