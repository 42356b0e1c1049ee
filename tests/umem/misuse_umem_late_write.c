// A buffer of umem_alloc written after umem_free: told at the next umem_alloc of the size.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *buffer = umem_alloc(SIZE, UMEM_DEFAULT);
    announce("umem_alloc", buffer);
    umem_free(buffer, SIZE);
    ((char *)hidden(buffer))[50] = 1;
    return umem_alloc(SIZE, UMEM_DEFAULT) != NULL && unnoticed();
}
