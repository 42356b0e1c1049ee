// Patterns: every changed byte of every small size is found at its offset, and nothing else is.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/pattern.h"

#include <string.h>

#include "unit.h"

enum { MOST = 70 };

static void test_pattern(uint64_t pattern) {
    uint8_t bytes[MOST + 8];

    for (size_t size = 0; size <= MOST; size++) {
        memset(bytes, 0x11, sizeof bytes);
        pattern_fill(bytes, size, pattern);
        CHECK_EQ(pattern_broken(bytes, size, pattern), PATTERN_WHOLE);
        CHECK_EQ(bytes[size], 0x11);
        for (size_t i = 0; i < size; i++) {
            bytes[i] ^= 0x40;
            CHECK_EQ(pattern_broken(bytes, size, pattern), (long)i);
            bytes[i] ^= 0x40;
        }
    }
}

static void test_red_zone(void) {
    uint8_t bytes[MOST + 32];

    for (size_t size = 0; size <= MOST; size++) {
        size_t whole = red_zone_bytes(size);

        memset(bytes, 0x11, sizeof bytes);
        red_zone_write(bytes, size);
        CHECK(whole >= size + 1 + RED_BYTES && whole <= size + 8 + RED_BYTES && whole % 8 == 0);
        CHECK_EQ(bytes[whole], 0x11);
        CHECK(size == 0 || bytes[size - 1] == 0x11);
        CHECK_EQ(bytes[size], PATTERN_END);
        CHECK_EQ(red_zone_broken(bytes, size), PATTERN_WHOLE);
        for (size_t i = size; i < whole; i++) {
            bytes[i] ^= 0x80;
            CHECK_EQ(red_zone_broken(bytes, size), (long)i);
            bytes[i] ^= 0x80;
        }
    }
}

int main(void) {
    test_pattern(PATTERN_FREE);
    test_pattern(PATTERN_FRESH);
    test_red_zone();
    return 0;
}
