// Waiting for children of fork, each of which is to end with status 0.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_CHILD_H
#define VMAG_TESTS_CHILD_H

#include "../check.h"

#include <sys/wait.h>

static inline void expect_child(pid_t child) {
    int status;

    CHECK_GT(child, 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

#endif
