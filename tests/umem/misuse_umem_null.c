// umem_free of NULL with a size, which UMEM_DEBUG=checknull does not let pass.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    announce("umem_free", NULL);
    umem_free(NULL, 0);
    umem_free(NULL, SIZE);
    return unnoticed();
}
