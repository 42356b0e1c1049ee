// Freed twice, with other frees in between.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = malloc(SIZE), *others[20];
    for (int i = 0; i < 20; i++) others[i] = malloc(SIZE);
    announce("free", object);
    free(object);
    for (int i = 0; i < 20; i++) free(others[i]);
    free(hidden(object));
    return unnoticed();
}
