// Tests util/format.h: what text_add writes is what snprintf writes, cut at the end of the buffer; text_print ends it with a zero.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/format.h"

#include "unit.h"

enum { ROOM = 200 };

static void compare(const char *format, const struct text *text, const char *got, const char *wanted) {
    size_t length = (size_t)(text->at - got);

    CHECK_SAY(length == strlen(wanted) && memcmp(got, wanted, length) == 0, "%s: got \"%.*s\", wanted \"%s\"", format,
              (int)length, got, wanted);
}

#define SAME(format, ...)                                                                  \
    do {                                                                                   \
        char got[ROOM], wanted[ROOM];                                                      \
        struct text text = text_into(got, sizeof got);                                     \
        text_add(&text, format, __VA_ARGS__);                                              \
        snprintf(wanted, sizeof wanted, format, __VA_ARGS__);                              \
        compare(format, &text, got, wanted);                                               \
    } while (0)

static void check_integers(long value) {
    int small = (int)value;

    SAME("%d", small);
    SAME("[%5d] [%-5d] [%05d]", small, small, small);
    SAME("[%16d] [%-16d] [%016d]", small, small, small);
    SAME("%u %x", (unsigned)small, (unsigned)small);
    SAME("[%9u] [%-9u] [%09u]", (unsigned)small, (unsigned)small, (unsigned)small);
    SAME("[%8x] [%-8x] [%08x]", (unsigned)small, (unsigned)small, (unsigned)small);
    SAME("%ld %lu %lx", value, (unsigned long)value, (unsigned long)value);
    SAME("%zu %zx", (size_t)value, (size_t)value);
    SAME("%lld %llu", (long long)value, (unsigned long long)value);
    SAME("[%22ld] [%-22ld] [%022ld]", value, value, value);
    SAME("[%18lx] [%-18zu] [%018zx]", (unsigned long)value, (size_t)value, (size_t)value);
}

static void check_pointer(uintptr_t value) {
    if (value != 0) // snprintf writes "(nil)"
        SAME("%p [%20p] [%-20p]", (void *)value, (void *)value, (void *)value);
}

static void check_strings(void) {
    static const char *const strings[] = { "", "a", "malloc", "a string longer than most of the fields that it meets" };

    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        SAME("%s", strings[i]);
        SAME("[%8s] [%-8s]", strings[i], strings[i]);
        SAME("%s%c%s 100%% %d", strings[i], 'x', strings[i], 7);
    }
    for (int c = 1; c < 128; c++)
        SAME("%c", c);
    SAME("[%3c] [%-3c]", 'c', 'c');
}

// Every size of buffer from none to enough: the text is cut, and nothing is written behind it.
static void check_cut(void) {
    const char *wanted = "malloc of -12345 bytes: 0x0000beef";

    for (size_t room = 0; room <= strlen(wanted); room++) {
        char got[64];
        memset(got, '#', sizeof got);
        struct text text = text_into(got, room);

        text_add(&text, "%s of %d", "malloc", -12345);
        text_add(&text, " bytes: 0x%08x", 0xbeefu);
        CHECK_EQ(text.at - got, room);
        CHECK(memcmp(got, wanted, room) == 0);
        CHECK_EQ(got[room], '#');
    }
}

static void check_print(void) {
    char got[8];

    text_print(got, sizeof got, "%s %d", "malloc", 7);
    CHECK(strcmp(got, "malloc ") == 0);
    text_print(got, sizeof got, "%d", 7);
    CHECK(strcmp(got, "7") == 0);
}

static void check_json(const char *value, const char *wanted, size_t bytes) {
    char got[8];

    CHECK_EQ(text_json(value, got), bytes);
    CHECK(strcmp(got, wanted) == 0);
}

static void check_json_texts(void) {
    check_json("ab", "a", 1);
    check_json("\"", "\\\"", 1);
    check_json("\\n", "\\\\", 1);
    check_json("\n", "\\u000a", 1);
    check_json("\x7f", "\x7f", 1);
    check_json("\xc2\xb5" "a", "\xc2\xb5", 2);
    check_json("\xe2\x82\xac", "\xe2\x82\xac", 3);
    check_json("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 4);
    check_json("\xf0\x9f\x98", "?", 1); // cut
    check_json("\x80", "?", 1);
    check_json("\xc0\xaf", "?", 1); // longer than it need be
    check_json("\xe0\x9f\xbf", "?", 1);
    check_json("\xed\xa0\x80", "?", 1); // half a character of UTF-16
    check_json("\xf4\x90\x80\x80", "?", 1);
}

int main(void) {
    struct random random = { 7 };
    static const long edges[] = { 0, 1, -1, 9, 10, -10, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN };

    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check_integers(edges[i]);
    for (int i = 0; i < 20000; i++) {
        long value = (long)(random_next(&random) >> random_below(&random, 64));

        check_integers(i % 2 ? value : -value);
        check_pointer((uintptr_t)value);
    }
    check_strings();
    check_cut();
    check_print();
    check_json_texts();
    return 0;
}
