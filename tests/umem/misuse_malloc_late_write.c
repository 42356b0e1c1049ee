// Written after free: told when the next object of the size is allocated.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("malloc", object);
    free(object);
    ((char *)hidden(object))[10] = 'A';
    return hidden(malloc(SIZE)) != NULL && unnoticed();
}
