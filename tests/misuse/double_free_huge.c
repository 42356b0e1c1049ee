// A block of 100 MiB freed twice.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc((size_t)100 << 20);
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    return unnoticed();
}
