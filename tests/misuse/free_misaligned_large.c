// free of eight bytes past the start of a live large block.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    char *block = malloc(1 << 20);
    void *crooked = hidden(block + 8);
    announce("free", crooked);
    free(crooked);
    return unnoticed();
}
