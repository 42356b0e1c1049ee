// Written behind a freed buffer, where its red zone is: told at exit.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = malloc(SIZE);
    announce("exit", object);
    free(object);
    ((char *)hidden(object))[SIZE] = 1;
    return 0;
}
