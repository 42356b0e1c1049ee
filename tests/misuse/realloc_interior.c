// realloc of an address inside a live large block.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    char *block = malloc(1 << 20);
    void *inside = hidden(block + 8192);
    announce("realloc", inside);
    void *moved = realloc(inside, 3 << 20);
    CHECK(moved != NULL);
    return unnoticed();
}
