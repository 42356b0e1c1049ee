// free_aligned_sized of a large block with the wrong size.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = aligned_alloc(4096, 1 << 20);
    announce("free_aligned_sized", block);
    free_aligned_sized(hidden(block), 4096, 2 << 20);
    return unnoticed();
}
