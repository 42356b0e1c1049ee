// One byte behind a buffer of umem_alloc.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *buffer = umem_zalloc(SIZE, UMEM_DEFAULT);
    announce("umem_free", buffer);
    buffer[SIZE] = 1;
    umem_free(buffer, SIZE);
    return unnoticed();
}
