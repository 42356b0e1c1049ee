// Prints 1 when the kernel calls this process secure (setuid and the like), else 0; secure.py runs it both ways.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <sys/auxv.h>

int main(void) {
    void *block = malloc(100);
    CHECK(block != NULL);
    free(block);
    return printf("%d\n", getauxval(AT_SECURE) != 0) != 2;
}
