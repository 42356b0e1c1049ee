// A large block freed twice, the second time by free_sized.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(1 << 20);
    announce("free_sized", block);
    free(hidden(block));
    free_sized(hidden(block), 1 << 20);
    return unnoticed();
}
