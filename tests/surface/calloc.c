// calloc: zeroed for every class, fresh and recycled after dirtying; product overflow; zero counts.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/resident.h"
#include "../support/sizes.h"

enum { BLOCKS = 100, SLAB_MOST = 14336 };

static void check_zeroed(const unsigned char *block, size_t size) {
    uint64_t any = 0;
    size_t offset = 0;
    for (; offset + sizeof any <= size; offset += sizeof any)
        any |= *(const uint64_t *)(block + offset);
    for (; offset < size; offset++)
        any |= block[offset];
    CHECK_SAY(any == 0, "calloc of %zu bytes at %p", size, (const void *)block);
}

static size_t blocks_of(size_t size) {
    return size <= 16384 ? BLOCKS : size <= 1 << 20 ? 8 : 2;
}

// Of a block that is no page run all that may be used is zero, as other allocators leave it.
static size_t zero_bytes(void *block, size_t size) {
    size_t usable = malloc_usable_size(block);
    return usable <= SLAB_MOST ? usable : size;
}

// Dirty as many blocks as several magazines hold, free them, and get them back by calloc.
static void check_recycled(size_t size) {
    unsigned char *blocks[BLOCKS];
    size_t count = blocks_of(size);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            blocks[i] = malloc(size);
            CHECK(blocks[i] != NULL);
            memset(blocks[i], 0xFF, malloc_usable_size(blocks[i]));
        }
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
        for (size_t i = 0; i < count; i++) {
            blocks[i] = calloc(1, size);
            CHECK(blocks[i] != NULL);
            check_zeroed(blocks[i], zero_bytes(blocks[i], size));
        }
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
    }
}

// Runs that were trimmed, merged and cut again come back zeroed too, whatever the allocator believes about the kernel.
static void check_mixed_recycling(void) {
    enum { SLOTS = 64, ROUNDS = 20000 };
    unsigned char *slots[SLOTS] = {0};
    uint64_t random = 7;
    for (int round = 0; round < ROUNDS; round++) {
        size_t slot = random_below(&random, SLOTS);
        size_t size = (size_t)1 << random_below(&random, 19);
        size += random_below(&random, size);
        free(slots[slot]);
        slots[slot] = calloc(size, 1);
        CHECK(slots[slot] != NULL);
        check_zeroed(slots[slot], zero_bytes(slots[slot], size));
        memset(slots[slot], 0xFF, malloc_usable_size(slots[slot]));
        if (round % 4000 == 0)
            malloc_trim(0);
    }
    for (int slot = 0; slot < SLOTS; slot++)
        free(slots[slot]);
}

// Large memory of which little was touched, asked for again as zero, is not made resident by that.
static void check_sparse(void) {
    enum { SPARSE = 64 << 20, RESIDENT_MOST = 16 << 20 };
    long before = anonymous_bytes();
    for (int round = 0; round < 3; round++) {
        unsigned char *block = malloc(SPARSE);
        CHECK(block != NULL);
        block[0] = block[SPARSE / 2] = block[SPARSE - 1] = 1;
        free(block);
        block = calloc(1, SPARSE);
        CHECK(block != NULL);
        CHECK_LT(anonymous_bytes() - before, RESIDENT_MOST);
        check_zeroed(block, SPARSE);
        free(block);
    }
}

static void check_overflow(size_t count, size_t size) {
    errno = 0;
    CHECK(calloc(count, size) == NULL);
    CHECK_EQ(errno, ENOMEM);
}

int main(void) {
    volatile size_t none = 0, half = SIZE_MAX / 2 + 1, root = (size_t)1 << (sizeof(size_t) * 4);
    each_class_size((size_t)16 << 20, check_recycled);
    check_mixed_recycling();
    check_sparse();
    check_overflow(half, 2);
    check_overflow(2, half);
    check_overflow(root, root);
    check_overflow(SIZE_MAX, SIZE_MAX);
    check_overflow(3, SIZE_MAX / 3 - 10);
    void *first = calloc(none, 16), *second = calloc(16, none);
    CHECK(first != NULL && second != NULL && first != second);
    free(first);
    free(second);
    return 0;
}
