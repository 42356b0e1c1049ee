// free of a local variable.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    long long local[8] = {0};
    announce("free", local);
    free(hidden(local));
    return unnoticed();
}
