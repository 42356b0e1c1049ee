// An address inside an object.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *inside = (char *)hidden(malloc(SIZE)) + 16;
    announce("free", inside);
    free(hidden(inside));
    return unnoticed();
}
