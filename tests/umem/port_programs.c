// What the test programs of libumem's Linux port do, in our words: a greeting, a thousand strings of four lengths, reaping.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "umem.h"

enum { LENGTHS = 4, STRINGS = 1000 };

static const char *const texts[LENGTHS] = {
    "anna",
    "annaannaanna",
    "a string that is a little longer than the ones above",
    "0123456789012345678901234567890123456",
};

int main(void) {
    char *greeting = umem_alloc(32, UMEM_DEFAULT), *strings[LENGTHS][STRINGS];
    strcpy(greeting, "hello there");
    puts(greeting);
    umem_free(greeting, 32);
    for (int j = 0; j < STRINGS; j++)
        for (int i = 0; i < LENGTHS; i++) {
            strings[i][j] = umem_alloc(strlen(texts[i]) + 1, UMEM_DEFAULT);
            strcpy(strings[i][j], texts[i]);
        }
    for (int j = 0; j < STRINGS; j++) {
        for (int i = LENGTHS - 1; i >= 0; i--) {
            if (strcmp(strings[i][j], texts[i]) != 0) return 1;
            umem_free(strings[i][j], strlen(texts[i]) + 1);
        }
        if (j % 25 == 0) umem_reap();
    }
    free(malloc(10));
    puts("done");
    return 0;
}
