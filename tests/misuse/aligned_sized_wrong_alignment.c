// free_aligned_sized with an alignment that the address does not have.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block;
    do
        block = aligned_alloc(64, 64);
    while ((uintptr_t)block % 4096 == 0);
    announce("free_aligned_sized", block);
    free_aligned_sized(hidden(block), 4096, 64);
    return unnoticed();
}
