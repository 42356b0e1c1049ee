// free_sized of a large block with four times its size.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(1 << 20);
    announce("free_sized", block);
    free_sized(hidden(block), 4 << 20);
    return unnoticed();
}
