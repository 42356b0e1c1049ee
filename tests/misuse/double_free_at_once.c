// A block of so many bytes freed twice, under tcache:false: told in the call, whatever its size.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    void *block = malloc((size_t)atoi(argv[1]));
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    return unnoticed();
}
