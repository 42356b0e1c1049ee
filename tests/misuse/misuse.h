// What every misuse program shares: it names the address and the call, commits its crime, and must not get any further.
// expect_report.py reads the announcement from stdout and compares it with the report on stderr.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_MISUSE_H
#define VMAG_TESTS_MISUSE_H

#include "../check.h"
#include "../support/family.h"

#include <sys/resource.h>

// Tells the runner which address and which call the report must name.
static inline void announce(const char *call, const void *address) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    char line[128];
    int length = snprintf(line, sizeof line, "%s 0x%lx\n", call, (unsigned long)(uintptr_t)address);
    CHECK_EQ(write(STDOUT_FILENO, line, (size_t)length), length);
}

// The compiler must not see where a pointer came from, or it would warn, or worse, know better.
static inline void *hidden(const void *pointer) {
    void *volatile copy = (void *)pointer;
    return copy;
}

// Reached only when the misuse went unnoticed; the runner also checks that nobody returned normally.
static inline int unnoticed(void) {
    say("the misuse went unnoticed");
    return 1;
}

#endif
