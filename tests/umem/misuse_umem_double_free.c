// umem_free twice of the same buffer.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *buffer = umem_alloc(SIZE, UMEM_DEFAULT);
    announce("umem_free", buffer);
    umem_free(buffer, SIZE);
    umem_free(hidden(buffer), SIZE);
    return unnoticed();
}
