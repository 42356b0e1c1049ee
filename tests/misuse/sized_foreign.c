// free_sized of a local variable.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    long long local[8] = {0};
    announce("free_sized", local);
    free_sized(hidden(local), sizeof local);
    return unnoticed();
}
