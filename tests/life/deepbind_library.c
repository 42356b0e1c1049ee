// Allocates for the program and frees what the program allocated; opened with RTLD_DEEPBIND by deepbind.c.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

char *deepbind_copy(const char *text) {
    char *copy = malloc(strlen(text) + 1);

    return copy == NULL ? NULL : strcpy(copy, text);
}

void deepbind_free(char *text) {
    free(text);
}
