// A small block freed twice: told when it reaches its slab, at the latest at the normal end of the process.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(48);
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    return 0;
}
