// sh6bench's pattern, from the description in the 2006 paper: groups of objects of one size, more of them where they are small; of each
// group some stay for some cycles, the others go, in changing orders. All memory is written at once.
//
//   groups ITERATIONS LEAST MOST     bytes an object
//
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

enum { GROUP_BYTES = 64 << 10, GROUP_MOST = 500, KEPT_CYCLES = 8, KEPT_MOST = KEPT_CYCLES * GROUP_MOST };

static void *kept[KEPT_CYCLES][GROUP_MOST]; // what a cycle left behind; freed when its turn comes again
static unsigned kept_count[KEPT_CYCLES];

static unsigned objects_of(size_t bytes) {
    const size_t fit = GROUP_BYTES / bytes;
    return fit > GROUP_MOST ? GROUP_MOST : fit < 8 ? 8 : (unsigned)fit;
}

static void free_in_order(void **objects, unsigned count, unsigned order) {
    for (unsigned i = 0; i < count; i++) {
        const unsigned at = order == 0 ? i : order == 1 ? count - 1 - i : (i & 1) == 0 ? i / 2 : count - 1 - i / 2;
        free(objects[at]);
    }
}

// Three objects in four of a group go at once; one stays for KEPT_CYCLES groups of sizes.
static void cycle(size_t bytes, unsigned number) {
    void *group[GROUP_MOST];
    const unsigned count = objects_of(bytes), lane = number % KEPT_CYCLES;
    free_in_order(kept[lane], kept_count[lane], number % 3);
    kept_count[lane] = 0;
    unsigned going = 0;
    for (unsigned i = 0; i < count; i++) {
        void *const object = malloc(bytes);
        if (object == NULL) errx(2, "no memory");
        memset(object, (int)number, bytes);
        if (i % 4 == 3) kept[lane][kept_count[lane]++] = object;
        else group[going++] = object;
    }
    free_in_order(group, going, (number + 1) % 3);
}

int main(int count, char **words) {
    const long iterations = program_number(words, count, 1, 20);
    const size_t least = (size_t)program_number(words, count, 2, 1), most = (size_t)program_number(words, count, 3, 1000);
    unsigned number = 0;
    for (long i = 0; i < iterations; i++) {
        for (size_t bytes = least; bytes <= most; bytes++) cycle(bytes, number++);
    }
    printf("%u groups\n", number);
}
