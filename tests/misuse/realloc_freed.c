// realloc of a large block that was freed.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(1 << 20);
    announce("realloc", block);
    free(hidden(block));
    void *moved = realloc(hidden(block), 3 << 20);
    CHECK(moved != NULL);
    return unnoticed();
}
