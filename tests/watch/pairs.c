// Pairs of allocating and freeing, for who counts their instructions: `pairs plain|sized SIZE COUNT`.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

void free_sized(void *, size_t);

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    size_t size = (size_t)atol(arguments[2]);
    long pairs = atol(arguments[3]);

    if (arguments[1][0] == 'p')
        for (long i = 0; i < pairs; i++) free(malloc(size));
    else
        for (long i = 0; i < pairs; i++) free_sized(malloc(size), size);
    return 0;
}
