// One byte behind an object of malloc: told at free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("free", object);
    object[SIZE] = 'A';
    free(object);
    return unnoticed();
}
