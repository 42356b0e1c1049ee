// free of one byte past the start of a live small block: told when it reaches its slab, at the latest at exit.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    char *block = malloc(64);
    void *crooked = hidden(block + 1);
    announce("free", crooked);
    free(crooked);
    return 0;
}
