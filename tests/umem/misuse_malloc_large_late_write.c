// A large object, written after free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = malloc(1000000);
    announce("exit", object);
    free(object);
    ((char *)hidden(object))[777777] = 'A';
    return 0;
}
