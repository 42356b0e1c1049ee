// A constructor and a destructor of objects that hold their own address: how many are constructed is counted.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_BALANCED_H
#define VMAG_TESTS_BALANCED_H

#include "../check.h"

static _Atomic int balance;

static int construct(void *object, void *argument, int flags) {
    (void)argument, (void)flags;
    *(void **)object = object;
    balance++;
    return 0;
}

static void destruct(void *object, void *argument) {
    (void)argument;
    CHECK(*(void **)object == object);
    balance--;
}

#endif
