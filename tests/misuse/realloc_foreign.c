// realloc of a static variable.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

static long long variable[64];

int main(void) {
    announce("realloc", variable);
    void *moved = realloc(hidden(variable), 1000);
    CHECK(moved != NULL);
    return unnoticed();
}
