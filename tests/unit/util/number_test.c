// Tests util/number.h: where a number ends.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/number.h"

#include "unit.h"

static void check_number(const char *text, unsigned base, uint64_t value, size_t length) {
    const char *at = text;

    CHECK_EQ(number_take(&at, base), value);
    CHECK_EQ((size_t)(at - text), length);
}

int main(void) {
    check_number("7f00c0de-7f00c0ff rw-p", 16, 0x7f00c0de, 8);
    check_number("120 kB", 10, 120, 3);
    check_number("12a", 10, 12, 2);
    check_number("", 16, 0, 0);
    for (int c = 1; c < 128; c++) {
        char text[] = {'1', (char)c, '\0'};
        int ends_decimal = c < '0' || c > '9', ends_hex = ends_decimal && (c < 'a' || c > 'f');

        check_number(text, 10, ends_decimal ? 1 : 10 + (uint64_t)(c - '0'), ends_decimal ? 1 : 2);
        check_number(text, 16, ends_hex ? 1 : 16 + (uint64_t)(ends_decimal ? c - 'a' + 10 : c - '0'), ends_hex ? 1 : 2);
    }
    return 0;
}
