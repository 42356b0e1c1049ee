// free_sized of a small block with a large size.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(64);
    announce("free_sized", block);
    free_sized(hidden(block), 1 << 20);
    return unnoticed();
}
