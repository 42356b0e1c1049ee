// A library that is opened under many names (watch.trace): each holds an object.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>

void *volatile kept;

void allocate(void);
void allocate(void) {
    kept = malloc(5000);
    __asm__ volatile("");
}
