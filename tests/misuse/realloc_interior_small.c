// realloc of an address inside a live small block.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    char *block = malloc(512);
    void *inside = hidden(block + 16);
    announce("realloc", inside);
    void *moved = realloc(inside, 2000);
    CHECK(moved != NULL);
    return unnoticed();
}
