// free_sized of a small block with the size of another class.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(64);
    announce("free_sized", block);
    free_sized(hidden(block), 512);
    return unnoticed();
}
