// malloc_usable_size: at least what was asked, the documented classes for small sizes, at most 20 % waste above 64 bytes.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/sizes.h"

static const size_t exact_limit = 1024;

static void check_size(size_t size) {
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    size_t usable = malloc_usable_size(block);
    CHECK_GE(usable, size);
    if (size > 64)
        CHECK_SAY((usable - size) * 5 <= usable, "malloc(%zu) has usable size %zu: more than 20 %% waste", size, usable);
    if (size <= exact_limit)
        CHECK_SAY(usable == class_of(size), "malloc(%zu) has usable size %zu, class %zu", size, usable, class_of(size));
    memset(block, 0xA5, usable < 65536 ? usable : 65536);
    block[usable - 1] = 1;
    CHECK_EQ(malloc_usable_size(block), usable);
    free(block);
}

// The same answer for the same size by every way in.
static void check_ways_agree(size_t size) {
    void *by_malloc = malloc(size), *by_calloc = calloc(size, 1), *by_realloc = realloc(NULL, size);
    CHECK_EQ(malloc_usable_size(by_malloc), malloc_usable_size(by_calloc));
    CHECK_EQ(malloc_usable_size(by_malloc), malloc_usable_size(by_realloc));
    free(by_malloc);
    free(by_calloc);
    free(by_realloc);
}

int main(void) {
    CHECK_EQ(malloc_usable_size(NULL), 0);
    for (size_t size = 0; size <= 40000; size++)
        check_size(size);
    for (size_t size = 40000; size <= (size_t)8 << 20; size += 509)
        check_size(size);
    each_class_size((size_t)256 << 20, check_size);
    each_class_size((size_t)8 << 20, check_ways_agree);
    return 0;
}
