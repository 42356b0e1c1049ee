// A large block freed twice.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *block = malloc(1 << 20);
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    return unnoticed();
}
