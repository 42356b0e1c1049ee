// A block of 100 MiB freed twice.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    enum { HUGE_BYTES = 100 << 20 };
    // The first large free may start the library's thread, whose own blocks could land where the victim was.
    free(hidden(malloc(HUGE_BYTES)));
    void *block = malloc(HUGE_BYTES);
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    return unnoticed();
}
