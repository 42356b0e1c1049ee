// free_aligned_sized with an alignment that is none, for it is no power of two.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = aligned_alloc(64, 64);
    announce("free_aligned_sized", block);
    free_aligned_sized(hidden(block), 3, 64);
    return unnoticed();
}
