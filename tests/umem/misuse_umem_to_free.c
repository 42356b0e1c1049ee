// A buffer of umem_alloc given to free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *buffer = umem_alloc(SIZE, UMEM_DEFAULT);
    announce("free", buffer);
    free(hidden(buffer));
    return unnoticed();
}
