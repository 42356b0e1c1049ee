// Tests heap/size_class.h: the table and the formulas against a list of classes made by their rule, and the waste of each.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/size_class.h"

#include "unit.h"

enum { LIST_MOST = 300, WASTE_MOST = 20 /* percent */, TABLE_END = 64 * 1024 * 1024 };

// The rule: 8, then steps of 16 to 128, then four for each doubling.
static size_t sizes[LIST_MOST];
static unsigned count;

static void list_make(void) {
    sizes[count++] = 0; // no class
    sizes[count++] = 8;
    for (size_t size = 16; size <= 128; size += 16)
        sizes[count++] = size;
    for (size_t doubling = 128; doubling < (size_t)1 << 62; doubling *= 2)
        for (size_t quarter = 1; quarter <= 4; quarter++)
            sizes[count++] = doubling + doubling / 4 * quarter;
    CHECK_LE(count, LIST_MOST);
}

static void check_class_sizes(void) {
    for (unsigned class = 1; class < count; class++) {
        CHECK_EQ(class_size(class), sizes[class]);
        CHECK_EQ(size_class(sizes[class]), class);
        CHECK_EQ(size_class(sizes[class - 1] + 1), class);
        CHECK_EQ(class_round(sizes[class]), sizes[class]);
        CHECK_EQ(class_round(sizes[class - 1] + 1), sizes[class]);
    }
    CHECK_EQ(size_class(0), 1); // malloc(0) is an object
    CHECK_EQ(class_round(0), 8);
}

// Every size, one by one.
static void check_every_size(void) {
    unsigned class = 1;

    for (size_t size = 1; size <= TABLE_END; size++) {
        class += size > sizes[class];
        if (size <= SMALL_MOST)
            CHECK_EQ(size_class_small[size], class);
        if (size > 128)
            CHECK_EQ(size_class_large(size), class);
        if (class_round(size) != sizes[class] || size_class(size) != class)
            CHECK_EQ(class_round(size), sizes[class]);
        if (size > 64 && (sizes[class] - size) * 100 > sizes[class] * WASTE_MOST)
            CHECK_SAY(false, "%zu bytes asked for get %zu: more than %d %% wasted", size, sizes[class], WASTE_MOST);
    }
}

// The first class that is large enough and a multiple of the alignment.
static void check_aligned(void) {
    for (size_t align = 8; align <= 65536; align *= 2) {
        unsigned class = 1;

        for (size_t size = 0; size <= 512 * 1024; size++) {
            while (sizes[class] < size || sizes[class] % align != 0)
                class++;
            if (class_round(aligned_request(align, size)) != sizes[class])
                CHECK_SAY(false, "%zu bytes at %zu: %zu, not %zu", size, align, class_round(aligned_request(align, size)), sizes[class]);
        }
    }
}

static void check_largest(void) {
    size_t most = PTRDIFF_MAX;

    CHECK_EQ(class_round(most), (size_t)1 << 63);
    for (unsigned lg = 27; lg < 63; lg++)
        for (size_t size = ((size_t)1 << lg) - 1; size <= ((size_t)1 << lg) + 1; size++) {
            size_t rounded = class_round(size);

            CHECK(rounded >= size && rounded - size <= rounded / 5);
        }
}

static void check_borders(void) {
    CHECK_EQ(size_class(SMALL_MOST), size_class_small[SMALL_MOST]);
    CHECK_EQ(size_class(SLAB_MOST), SLAB_CLASSES - 1);
    CHECK_EQ(size_class(SLAB_MOST + 1), SLAB_CLASSES);
    CHECK_EQ(size_class(MAGAZINE_MOST), CLASSES - 1);
    CHECK_EQ(size_class(MAGAZINE_MOST + 1), CLASSES);
    for (unsigned class = 1; class < CLASSES; class++) // what malloc promises for any object of that size
        CHECK_EQ(class_size(class) % (class_size(class) < 16 ? 8 : 16), 0);
}

static void bytes_of_the_table(void) {
    for (unsigned class = 1; class < CLASSES; class++)
        CHECK_EQ(size_class_bytes[class], class_size(class));
}

int main(void) {
    bytes_of_the_table();
    list_make();
    check_class_sizes();
    check_borders();
    check_every_size();
    check_aligned();
    check_largest();
    return 0;
}
