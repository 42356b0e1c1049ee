// CHECK macros of the outside tests: print file, line and values on stderr, then abort. They never allocate.
// Usable from C and C++.  A test is a main() that returns 0, or 77 to say "skipped".
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_CHECK_H
#define VMAG_TESTS_CHECK_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77 };

// One line on stderr, formatted in a fixed buffer: the allocator under test may be broken at this moment.
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t bytes = (size_t)length < sizeof line - 2 ? (size_t)length : sizeof line - 2;
    line[bytes] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, bytes + 1);
    (void)ignored;
}

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            say("%s:%d: failed: %s", __FILE__, __LINE__, #condition);                      \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

// Like CHECK, with a formatted explanation of the values that led there.
#define CHECK_SAY(condition, ...)                                                          \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            say(__VA_ARGS__);                                                              \
            say("%s:%d: failed: %s", __FILE__, __LINE__, #condition);                      \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#define CHECK_COMPARE(left, operator_, right)                                              \
    do {                                                                                   \
        long long left_value = (long long)(left), right_value = (long long)(right);        \
        if (!(left_value operator_ right_value)) {                                         \
            say("%s:%d: failed: %s %s %s (%lld against %lld)", __FILE__, __LINE__, #left,  \
                #operator_, #right, left_value, right_value);                              \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#define CHECK_EQ(left, right) CHECK_COMPARE(left, ==, right)
#define CHECK_NE(left, right) CHECK_COMPARE(left, !=, right)
#define CHECK_LE(left, right) CHECK_COMPARE(left, <=, right)
#define CHECK_LT(left, right) CHECK_COMPARE(left, <, right)
#define CHECK_GE(left, right) CHECK_COMPARE(left, >=, right)
#define CHECK_GT(left, right) CHECK_COMPARE(left, >, right)

// Says on stderr why a test cannot run here, and leaves with the status that ctest counts as skipped.
#define SKIP(...)                                                                          \
    do {                                                                                   \
        say("SKIPPED: " __VA_ARGS__);                                                      \
        exit(SKIPPED);                                                                     \
    } while (0)

#endif
