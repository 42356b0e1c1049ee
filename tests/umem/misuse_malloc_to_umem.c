// An object of malloc given to umem_free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = hidden(malloc(SIZE));
    announce("umem_free", object);
    umem_free(hidden(object), SIZE);
    return unnoticed();
}
