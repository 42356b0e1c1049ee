// An address that no allocator gave.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    static char object[SIZE];
    announce("free", object);
    free(hidden(object));
    return unnoticed();
}
