// The *x functions: every flag with sizes and alignments; nallocx, sallocx and malloc_usable_size agree; resizing, zeroing, limits.
// SPDX-License-Identifier: BSD-2-Clause
#define JEMALLOC_NO_DEMANGLE
#include <jemalloc/jemalloc.h>

#include "../check.h"
#include "../support/pattern.h"
#include "../support/resident.h"
#include "../support/sizes.h"

// Through the thread's cache, past it, from arena 0.
enum { WAYS = 4 };
static const int ways[WAYS] = {0, MALLOCX_TCACHE_NONE, MALLOCX_ARENA(0), MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE};

static void check_zero(const unsigned char *bytes, size_t from, size_t to) {
    for (size_t i = from; i < to; i += i + 4096 < to && i > 65536 ? 61 : 1)
        CHECK_EQ(bytes[i], 0);
}

static void check_one(size_t size, int flags) {
    size_t align = (size_t)1 << (flags & 0x3f), told = nallocx(size, flags);
    unsigned char *object = mallocx(size, flags);

    CHECK_SAY(object != NULL, "mallocx(%zu, %#x)", size, flags);
    CHECK_EQ((uintptr_t)object % align, 0);
    CHECK_SAY(sallocx(object, flags) == told && malloc_usable_size(object) == told && told >= size,
              "size %zu flags %#x: nallocx %zu, sallocx %zu, usable %zu", size, flags, told, sallocx(object, flags),
              malloc_usable_size(object));
    if (flags & MALLOCX_ZERO)
        check_zero(object, 0, told);
    pattern_fill(object, told, (uint64_t)(uintptr_t)object);
    pattern_verify(object, told, (uint64_t)(uintptr_t)object);
    switch (size % 4) {
    case 0: dallocx(object, flags); break;
    case 1: sdallocx(object, size, flags); break;
    case 2: sdallocx(object, told, flags); break;
    default: free(object);
    }
}

static void check_size(size_t size) {
    for (int lg = 0; lg <= 12; lg++)
        check_one(size, MALLOCX_LG_ALIGN(lg) | (size % 3 == 0 ? MALLOCX_ZERO : 0) | ways[(size + (size_t)lg) % WAYS]);
}

static void check_class_size(size_t size) {
    for (int lg = 0; lg <= 22; lg++)
        for (int way = 0; way < WAYS; way++)
            check_one(size, MALLOCX_LG_ALIGN(lg) | ways[way]);
    check_one(size, MALLOCX_ZERO);
    check_one(size, MALLOCX_ZERO | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(8192));
}

// rallocx keeps the contents, and zeroes behind what could be used before.
static void check_resize(size_t from, size_t to, int flags) {
    unsigned char *object = mallocx(from, flags), *moved;
    size_t old_size = sallocx(object, 0);

    memset(object, 0x5b, old_size);
    moved = rallocx(object, to, flags | MALLOCX_ZERO);
    CHECK(moved != NULL);
    CHECK_EQ(sallocx(moved, 0), nallocx(to, flags));
    CHECK_EQ((uintptr_t)moved % ((size_t)1 << (flags & 0x3f)), 0);
    for (size_t i = 0; i < old_size && i < to; i++)
        CHECK_EQ(moved[i], 0x5b);
    if (sallocx(moved, 0) > old_size)
        check_zero(moved, old_size, sallocx(moved, 0));
    dallocx(moved, flags);
}

static void check_resizes(void) {
    static const size_t sizes[] = {1, 8, 100, 4096, 14336, 16384, 70000, 300000, 2000000, 5000000};
    const int flags[] = {0, MALLOCX_ALIGN(64), MALLOCX_ALIGN(4096), MALLOCX_ALIGN(65536), MALLOCX_TCACHE_NONE,
                                MALLOCX_ARENA(0) | MALLOCX_ALIGN(32)};

    for (size_t a = 0; a < sizeof sizes / sizeof sizes[0]; a++)
        for (size_t b = 0; b < sizeof sizes / sizeof sizes[0]; b++)
            for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++)
                check_resize(sizes[a], sizes[b], flags[f]);
    dallocx(rallocx(NULL, 10, 0), 0);
}

// In place or not at all, and always between what was asked and what was possible.
static void check_xallocx(void) {
    unsigned char *object = mallocx(42, 0);
    size_t usable = sallocx(object, 0);

    CHECK_EQ(xallocx(object, usable, 0, 0), usable);
    CHECK_EQ(xallocx(object, 1, 0, 0), usable);
    CHECK_EQ(xallocx(object, usable + 1, 0, 0), usable);
    CHECK_EQ(xallocx(object, 1, SIZE_MAX - 1, 0), usable);
    CHECK_EQ(xallocx(object, SIZE_MAX, 0, 0), usable);
    dallocx(object, 0);

    object = mallocx((size_t)8 << 20, 0);
    memset(object, 0x5b, (size_t)8 << 20);
    CHECK_EQ(xallocx(object, (size_t)4 << 20, 0, 0), (size_t)4 << 20);
    CHECK_EQ(sallocx(object, 0), (size_t)4 << 20);
    CHECK_EQ(xallocx(object, (size_t)4 << 20, (size_t)2 << 20, MALLOCX_ZERO), (size_t)6 << 20); // into what it left
    check_zero(object, (size_t)4 << 20, (size_t)6 << 20);
    CHECK_EQ(object[0], 0x5b);
    CHECK_EQ(xallocx(object, (size_t)5 << 20, (size_t)3 << 20, MALLOCX_ALIGN(4096)), (size_t)8 << 20);
    CHECK_LE(xallocx(object, (size_t)8 << 20, PTRDIFF_MAX, 0), nallocx((size_t)7 << 60, 0));
    CHECK_GE(xallocx(object, (size_t)8 << 20, SIZE_MAX - ((size_t)7 << 20), 0), (size_t)8 << 20); // their sum would be 1 MiB
    sdallocx(object, sallocx(object, 0), 0);
}

// What outgrows its place keeps the alignment that is asked for, although there is a hole of just its size elsewhere. Before there is anything else, so that it
// is clear where the hole lies.
static void check_large_alignment(void) {
    enum { LG_ALIGN = 21, ALIGN = 1 << LG_ALIGN, LARGE = 16 << 20 };
    void *odd, *hole, *end, *behind;
    char *object;

    dallocx(mallocx(3 * LARGE, 0), 0); // of which the next three are parts
    odd = mallocx(ALIGN / 4 * 5, 0);
    hole = mallocx(LARGE, 0);
    CHECK((uintptr_t)hole % ALIGN != 0);
    end = mallocx(ALIGN, 0);
    object = memset(mallocx(ALIGN, MALLOCX_LG_ALIGN(LG_ALIGN)), 0x5b, ALIGN);
    behind = mallocx(ALIGN, 0);
    dallocx(hole, 0);
    object = rallocx(object, LARGE, MALLOCX_LG_ALIGN(LG_ALIGN));
    CHECK(object != NULL && (uintptr_t)object % ALIGN == 0 && object[0] == 0x5b && object[ALIGN - 1] == 0x5b);
    dallocx(object, 0);
    dallocx(behind, 0);
    dallocx(end, 0);
    dallocx(odd, 0);
}

// What is large and was used before is zero without being resident.
static void check_large_zero(void) {
    enum { ALLOCATED, ALLOCATED_APART, MOVED, GROWN, HOWS };
    size_t large = (size_t)128 << 20, small = (size_t)1 << 20;

    for (int how = 0; how < HOWS; how++) {
        unsigned char *object = memset(mallocx(large, 0), 0x5b, large);

        if (how == GROWN)
            CHECK_EQ(xallocx(object, small, 0, 0), small);
        else
            dallocx(object, 0);
        if (how == ALLOCATED)
            object = mallocx(large, MALLOCX_ZERO);
        if (how == ALLOCATED_APART)
            object = mallocx(large, MALLOCX_ZERO | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(8192));
        if (how == MOVED)
            object = rallocx(memset(mallocx(small, 0), 0x5b, small), large, MALLOCX_ZERO);
        if (how == GROWN)
            CHECK_EQ(xallocx(object, large, 0, MALLOCX_ZERO), large);
        CHECK(object != NULL);
        CHECK_SAY(resident_bytes_of(object, large) < large / 4, "%d: %zu KiB", how, resident_bytes_of(object, large) / 1024);
        check_zero(object, how < MOVED ? 0 : small, sallocx(object, 0));
        if (how >= MOVED)
            CHECK_EQ(object[small - 1], 0x5b);
        dallocx(object, 0);
    }
}

static void check_limits(void) {
    size_t largest = (size_t)7 << 60;

    CHECK_EQ(nallocx(largest, 0), largest);
    CHECK_EQ(nallocx(largest + 1, 0), 0);
    CHECK_EQ(nallocx((size_t)PTRDIFF_MAX + 1, 0), 0);
    CHECK_EQ(nallocx(SIZE_MAX, 0), 0);
    CHECK_EQ(nallocx(1, MALLOCX_ALIGN((size_t)PTRDIFF_MAX + 1)), 0);
    CHECK(mallocx(largest, 0) == NULL);
    CHECK(mallocx(largest + 1, 0) == NULL);
    CHECK(mallocx((size_t)PTRDIFF_MAX + 1, 0) == NULL);
    CHECK(mallocx(SIZE_MAX, MALLOCX_TCACHE_NONE) == NULL);
    CHECK(mallocx(1, MALLOCX_ALIGN((size_t)PTRDIFF_MAX + 1)) == NULL);
    CHECK(mallocx(largest, MALLOCX_ARENA(0) | MALLOCX_ZERO) == NULL);
    void *object = mallocx(1, 0);
    CHECK(rallocx(object, largest + 1, 0) == NULL);
    CHECK(rallocx(object, SIZE_MAX, 0) == NULL);
    CHECK(rallocx(object, (size_t)PTRDIFF_MAX + 1, 0) == NULL);
    CHECK(mallocx(1, 0) != object); // it is not free
    CHECK(rallocx(object, (size_t)PTRDIFF_MAX + 1, MALLOCX_TCACHE_NONE) == NULL);
    CHECK(rallocx(object, 1, MALLOCX_ALIGN((size_t)PTRDIFF_MAX + 1)) == NULL);
    dallocx(object, 0);
    dallocx(NULL, 0);
    dallocx(NULL, MALLOCX_TCACHE_NONE);
    sdallocx(NULL, 10, 0);
    dallocx(mallocx(0, 0), 0);
    for (unsigned lg = 0; lg < 30; lg++)
        CHECK_EQ(MALLOCX_ALIGN((size_t)1 << lg), MALLOCX_LG_ALIGN(lg));
    CHECK_EQ(MALLOCX_ALIGN((size_t)1 << 40), MALLOCX_LG_ALIGN(40));
}

int main(void) {
    bool off = false;

    // In a static program it is a thread of the C library's, which allocates for it where the test has just freed.
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &off, sizeof off), 0);
    check_large_alignment();
    for (size_t size = 1; size <= 17000; size += size < 5000 ? 1 : 13)
        check_size(size);
    each_class_size((size_t)300 << 10, check_class_size);
    for (size_t size = (size_t)320 << 10; size <= (size_t)8 << 20; size = size * 5 / 4) {
        check_one(size, MALLOCX_ZERO);
        check_one(size + 1, MALLOCX_ALIGN((size_t)8 << 20) | MALLOCX_TCACHE_NONE);
    }
    check_resizes();
    check_xallocx();
    check_large_zero();
    check_limits();
    CHECK_EQ(je_sallocx(je_mallocx(100, 0), 0), je_nallocx(100, 0));
    return 0;
}
