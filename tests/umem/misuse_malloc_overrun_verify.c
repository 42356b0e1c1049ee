// A live object that was written beyond its end, in a program that never frees it and never comes to exit: told after 100 operations
// at the latest, by the one that looks at all buffers.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

enum { OPERATIONS = 100 };

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("malloc", object);
    object[SIZE] = 'A';
    for (int i = 0; i < OPERATIONS; i++)
        CHECK(hidden(malloc(SIZE)) != NULL);
    _exit(0);
}
