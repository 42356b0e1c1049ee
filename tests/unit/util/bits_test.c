// Tests util/bits.h: rounding, logarithms and first bits against plain loops.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/bits.h"

#include "unit.h"

static unsigned slow_lg_floor(size_t x) {
    unsigned lg = 0;

    while (x >>= 1)
        lg++;
    return lg;
}

static unsigned slow_lg_ceil(size_t x) {
    unsigned lg = 0;

    while (lg < 64 && (size_t)1 << lg < x)
        lg++;
    return lg;
}

static unsigned slow_bits_set(size_t x) {
    unsigned bits = 0;

    for (unsigned i = 0; i < 64; i++)
        bits += x >> i & 1;
    return bits;
}

static unsigned slow_first_bit(uint64_t x) {
    unsigned bit = 0;

    while ((x >> bit & 1) == 0)
        bit++;
    return bit;
}

static void check_one(size_t x) {
    CHECK_EQ(is_power_of_two(x), slow_bits_set(x) == 1);
    if (x == 0)
        return;
    CHECK_EQ(lg_floor(x), slow_lg_floor(x));
    if (x <= (size_t)1 << 63)
        CHECK_EQ(lg_ceil(x), slow_lg_ceil(x));
    CHECK_EQ(first_bit(x), slow_first_bit(x));
}

static void check_rounding(size_t x, size_t align) {
    CHECK_EQ(round_down(x, align), x - x % align);
    if (x <= SIZE_MAX - (align - 1))
        CHECK_EQ(round_up(x, align), x % align == 0 ? x : x - x % align + align);
    else
        CHECK_LT(round_up(x, align) % align, 1); // wrapped: below x, as the header says
    if (x > SIZE_MAX - (align - 1))
        CHECK(round_up(x, align) < x);
}

int main(void) {
    struct random random = { 42 };

    for (size_t x = 0; x < 70000; x++)
        check_one(x);
    for (unsigned lg = 0; lg < 64; lg++)
        for (size_t near = 0; near < 3; near++)
            check_one(((size_t)1 << lg) + near - 1);
    for (int i = 0; i < 200000; i++) {
        size_t x = random_next(&random) >> random_below(&random, 64);

        check_one(x);
        check_rounding(x, (size_t)1 << random_below(&random, 40));
    }
    check_rounding(SIZE_MAX, 4096);
    check_rounding(SIZE_MAX - 4095, 4096);
    check_rounding(SIZE_MAX - 4094, 4096);
    CHECK_EQ(lg_ceil(0), 0);
    CHECK(min_size(1, SIZE_MAX) == 1 && min_size(SIZE_MAX, 1) == 1);
    CHECK(max_size(1, SIZE_MAX) == SIZE_MAX && max_size(SIZE_MAX, 1) == SIZE_MAX);
    return 0;
}
