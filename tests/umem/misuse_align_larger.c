// umem_free_align with a size that the buffer does not have.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    void *buffer = umem_alloc_align(SIZE, 64, UMEM_DEFAULT);
    announce("umem_free_align", buffer);
    umem_free_align(buffer, 4 * SIZE);
    return unnoticed();
}
