// umem_free with another size than umem_alloc's.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    void *buffer = umem_alloc(SIZE, UMEM_DEFAULT);
    announce("umem_free", buffer);
    umem_free(buffer, SIZE + 1);
    return unnoticed();
}
