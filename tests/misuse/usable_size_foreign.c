// malloc_usable_size of a local variable.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    long long local[8] = {0};
    announce("malloc_usable_size", local);
    volatile size_t size = malloc_usable_size(hidden(local));
    (void)size;
    return unnoticed();
}
