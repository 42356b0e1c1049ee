// Written after free, and nothing is allocated any more: told at exit.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("exit", object);
    free(object);
    ((char *)hidden(object))[10] = 'A';
    return 0;
}
