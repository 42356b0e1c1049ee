// The address that realloc was given is used afterwards.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("exit", object);
    char *moved = realloc(object, SIZE + 1);
    ((char *)hidden(object))[0] = 'A';
    return moved == NULL;
}
