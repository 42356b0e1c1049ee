// A live object that was written beyond its end and is never freed: told at exit.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("exit", object);
    object[SIZE] = 'A';
    return 0;
}
