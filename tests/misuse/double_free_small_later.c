// A small block freed twice with a hundred thousand ordinary calls of its class after it.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    enum { COUNT = 100000 };
    static void *others[COUNT];
    for (int i = 0; i < COUNT; i++)
        others[i] = malloc(96);
    void *block = malloc(96);
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    for (int i = 0; i < COUNT; i++)
        free(others[i]);
    malloc_trim(0);
    return unnoticed();
}
