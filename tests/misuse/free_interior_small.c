// free of an address inside a live small block: told when it reaches its slab, at the latest at exit.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    char *block = malloc(200);
    void *inside = hidden(block + 64);
    announce("free", inside);
    free(inside);
    return 0;
}
