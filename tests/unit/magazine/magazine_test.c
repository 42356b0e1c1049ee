// Tests magazine/magazine.h: guards, slots, every capacity, and the memory of magazines that are destroyed.
// SPDX-License-Identifier: BSD-2-Clause
#include "magazine/magazine.h"

#include "heap/heap.h"
#include "pages/page_map.h"
#include "unit.h"

enum { CAPACITY_MOST = 252, WORD = 0xc8a1, MAGAZINES = 3000 };

static void check_empty(const struct magazine *magazine, unsigned capacity, uintptr_t word) {
    CHECK(magazine != NULL && magazine->capacity == capacity && magazine->rounds == 0);
    CHECK((&magazine->guard)[0] == NULL && (const void *const *)&magazine->guard + 1 == (const void *const *)magazine->round);
    for (unsigned i = 0; i < capacity; i++)
        CHECK(magazine->round[i] == (void *)word);
    CHECK(magazine->round[capacity] == MAGAZINE_FULL);
}

// What the fast path does with a top: the guards stop it at both ends, and nowhere between.
static void fill_and_empty(struct magazine *magazine, uintptr_t word) {
    void **top = magazine->round;
    unsigned count = 0;

    CHECK(top[-1] == NULL);
    for (; *top == (void *)word; count++)
        *top++ = (void *)(uintptr_t)(count + 1);
    CHECK_EQ(count, magazine->capacity);
    CHECK(*top == MAGAZINE_FULL);
    for (; top[-1] != NULL; count--) {
        CHECK_EQ((uintptr_t)top[-1], count);
        *--top = (void *)word;
    }
    CHECK_EQ(count, 0);
    CHECK(top == magazine->round);
    check_empty(magazine, magazine->capacity, word);
}

static void every_capacity(void) {
    for (unsigned capacity = 1; capacity <= CAPACITY_MOST; capacity++) {
        struct magazine *magazine = magazine_create(capacity, WORD);

        check_empty(magazine, capacity, WORD);
        CHECK_GE(magazine_slots(magazine->size), capacity);
        CHECK(magazine->size == 0 || magazine_slots(magazine->size - 1u) < capacity); // no larger than needed
        fill_and_empty(magazine, WORD);
        magazine_clear(magazine, WORD + 1);
        check_empty(magazine, capacity, WORD + 1);
        magazine_destroy(magazine);
    }
}

// Magazines do not overlap, are apart from the program's objects, and their memory is used again.
static void many(void) {
    static struct magazine *magazines[MAGAZINES];
    struct random random = { 3 };
    size_t bytes = 0;

    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MAGAZINES; i++) {
            unsigned capacity = 1 + (unsigned)random_below(&random, CAPACITY_MOST);

            magazines[i] = magazine_create(capacity, WORD);
            CHECK(magazines[i] != NULL && page_map_word(magazines[i]) == 0);
            for (unsigned j = 0; j < capacity; j++)
                magazines[i]->round[j] = (void *)(uintptr_t)(i * 1000 + j + 1);
        }
        for (unsigned i = 0; i < MAGAZINES; i++) {
            CHECK(magazines[i]->guard == NULL && magazines[i]->round[magazines[i]->capacity] == MAGAZINE_FULL);
            for (unsigned j = 0; j < magazines[i]->capacity; j++)
                CHECK_EQ((uintptr_t)magazines[i]->round[j], i * 1000 + j + 1);
            magazine_destroy(magazines[i]);
        }
        CHECK(round == 0 || magazines_bytes() <= bytes + bytes / 4);
        bytes = magazines_bytes();
    }
    CHECK_GT(magazines_dirty_bytes(), 0);
    magazines_trim(true, 0);
    CHECK_EQ(magazines_dirty_bytes(), 0);
    CHECK_LT(magazines_bytes(), 512 * 1024); // what this program's own fronts hold
}

int main(void) {
    CHECK(heap_ready());
    every_capacity();
    many();
    return 0;
}
