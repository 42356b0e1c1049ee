// Sizes worth testing: around every size class a malloc of this kind has, small to large, and a small random source.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_SIZES_H
#define VMAG_TESTS_SIZES_H

#include <stddef.h>
#include <stdint.h>

// The size class of the documented rule: 8; steps of 16 to 128; four classes a doubling above.
static inline size_t class_of(size_t size) {
    if (size <= 8)
        return 8;
    if (size <= 128)
        return (size + 15) & ~(size_t)15;
    size_t doubling = 128;
    while (doubling * 2 < size)
        doubling *= 2;
    size_t step = doubling / 4;
    return (size + step - 1) / step * step;
}

// Calls `visit` with one size below, at and above each class up to `limit`.
static inline void each_class_size(size_t limit, void (*visit)(size_t)) {
    for (size_t size = 8; size <= limit; size = class_of(size + 1)) {
        visit(size - 1);
        visit(size);
        if (size < limit)
            visit(size + 1);
    }
}

// xorshift64*: the same seed gives the same run everywhere.
static inline uint64_t random_next(uint64_t *state) {
    uint64_t value = *state;
    value ^= value >> 12;
    value ^= value << 25;
    value ^= value >> 27;
    *state = value;
    return value * 0x2545F4914F6CDD1Du;
}

static inline size_t random_below(uint64_t *state, size_t limit) {
    return (size_t)((random_next(state) >> 11) % limit);
}

#endif
