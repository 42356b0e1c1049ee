// free of the address of a function.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(void) {
    void *code = hidden((void *)(uintptr_t)&main);
    announce("free", code);
    free(code);
    return unnoticed();
}
