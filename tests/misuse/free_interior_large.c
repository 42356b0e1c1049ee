// free of a page inside a live large block.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    char *block = malloc(4 << 20);
    void *inside = hidden(block + (1 << 20));
    announce("free", inside);
    free(inside);
    return unnoticed();
}
