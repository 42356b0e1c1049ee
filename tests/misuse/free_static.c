// free of a static variable.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

static long long variable[8];

int main(void) {
    announce("free", variable);
    free(hidden(variable));
    return unnoticed();
}
