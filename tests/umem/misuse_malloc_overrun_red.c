// Behind the end of the size class, into the red zone: told at free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("free", object);
    object[SIZE + 6] = 'A';
    free(object);
    return unnoticed();
}
