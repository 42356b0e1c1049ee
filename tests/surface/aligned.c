// aligned_alloc, posix_memalign, memalign, valloc, pvalloc: alignment for many sizes, argument errors, recycling.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

static const size_t sizes[] = {0, 1, 7, 8, 9, 16, 24, 63, 64, 65, 100, 1000, 4095, 4096, 4097, 10000, 65536, 100000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_block(void *block, size_t alignment, size_t size) {
    CHECK_SAY(block != NULL && (uintptr_t)block % alignment == 0, "alignment %zu size %zu gives %p", alignment, size, block);
    CHECK_GE(malloc_usable_size(block), size);
    pattern_fill(block, size, (uintptr_t)block);
}

static void check_alignment(size_t alignment) {
    void *blocks[3 * SIZES];
    size_t count = 0;
    for (int i = 0; i < SIZES; i++) {
        check_block(blocks[count++] = aligned_alloc(alignment, sizes[i]), alignment, sizes[i]);
        check_block(blocks[count++] = memalign(alignment, sizes[i]), alignment, sizes[i]);
        if (alignment >= sizeof(void *)) {
            void *block = NULL;
            CHECK_EQ(posix_memalign(&block, alignment, sizes[i]), 0);
            check_block(blocks[count++] = block, alignment, sizes[i]);
        }
    }
    size_t stride = alignment >= sizeof(void *) ? 3 : 2;
    for (size_t i = 0; i < count; i++) {
        pattern_verify(blocks[i], sizes[i / stride], (uintptr_t)blocks[i]);
        free(blocks[i]);
    }
}

// Many of one alignment at once: past the first slab, and mixed with ordinary blocks.
static void check_many(size_t alignment, size_t size) {
    enum { COUNT = 200 };
    void *aligned[COUNT], *ordinary[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            check_block(aligned[i] = aligned_alloc(alignment, size), alignment, size);
            ordinary[i] = malloc(size);
            memset(ordinary[i], 0xAB, size);
        }
        for (int i = 0; i < COUNT; i++) {
            pattern_verify(aligned[i], size, (uintptr_t)aligned[i]);
            free(aligned[i]);
            free(ordinary[i]);
        }
    }
}

static void check_posix_errors(void) {
    static const size_t bad[] = {0, 1, 2, 4, 3, 12, 24, 100, SIZE_MAX, SIZE_MAX / 2};
    void *untouched = &untouched;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(posix_memalign(&untouched, bad[i], 100), EINVAL);
        CHECK(untouched == (void *)&untouched);
    }
    static const size_t impossible[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096};
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        errno = 0;
        CHECK_EQ(posix_memalign(&untouched, 64, impossible[i]), ENOMEM);
        CHECK_EQ(errno, ENOMEM); // as in glibc and musl
        CHECK(untouched == (void *)&untouched);
        CHECK_EQ(posix_memalign(&untouched, 1 << 21, impossible[i]), ENOMEM);
    }
}

// glibc from 2.38 on refuses odd alignments in aligned_alloc; earlier ones, and memalign always, round them up to a power of
// two.  Either is right; a block with less than the alignment asked for is not.
static void check_odd_alignment(void *(*allocate)(size_t, size_t), size_t odd, size_t rounded) {
    errno = 0;
    void *block = allocate(odd, 100);
    if (block == NULL)
        CHECK(errno == EINVAL && allocate != memalign);
    else
        CHECK_EQ((uintptr_t)block % rounded, 0);
    free(block);
}

static void check_errors_of(void *(*allocate)(size_t, size_t)) {
    check_odd_alignment(allocate, 0, 8);
    check_odd_alignment(allocate, 3, 4);
    check_odd_alignment(allocate, 24, 32);
    check_odd_alignment(allocate, 4097, 8192);
    errno = 0;
    CHECK(allocate(64, SIZE_MAX) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(allocate(4096, (size_t)PTRDIFF_MAX) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(allocate((size_t)1 << 62, 100) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(allocate(SIZE_MAX / 2 + 2, 100) == NULL);
    CHECK(errno == EINVAL || errno == ENOMEM);
}

static void check_page_functions(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size <= 5 * page; size += 777) {
        void *plain = valloc(size), *rounded = pvalloc(size);
        check_block(plain, page, size);
        check_block(rounded, page, (size + page - 1) / page * page);
        pattern_verify(plain, size, (uintptr_t)plain);
        free(plain);
        free(rounded);
    }
    errno = 0;
    CHECK(pvalloc(SIZE_MAX - 10) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(valloc(SIZE_MAX - 10) == NULL);
    CHECK_EQ(errno, ENOMEM);
}

int main(void) {
    for (size_t alignment = 1; alignment <= (size_t)16 << 20; alignment *= 2)
        check_alignment(alignment);
    for (size_t alignment = 16; alignment <= 8192; alignment *= 2) {
        check_many(alignment, alignment);
        check_many(alignment, alignment + 8);
        check_many(alignment, 3 * alignment);
        check_many(alignment, 24);
    }
    check_posix_errors();
    check_errors_of(aligned_alloc);
    check_errors_of(memalign);
    check_page_functions();
    return 0;
}
