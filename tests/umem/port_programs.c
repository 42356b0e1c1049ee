// What the test programs of libumem's Linux port do, in our words: a greeting, a thousand strings of four lengths, reaping.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umem.h"

enum { LENGTHS = 4, STRINGS = 1000 };

static const char *const texts[LENGTHS] = {
    "anna",
    "annaannaanna",
    "a string that is a little longer than the ones above",
    "0123456789012345678901234567890123456",
};

static void fail(const char *what) {
    fprintf(stderr, "port_programs: %s\n", what);
    exit(1);
}

static void *some(size_t size) {
    void *buffer = umem_alloc(size, UMEM_DEFAULT);
    if (buffer == NULL) fail("no memory");
    return buffer;
}

int main(void) {
    char *greeting = some(32), *strings[LENGTHS][STRINGS];
    strcpy(greeting, "hello there");
    puts(greeting);
    umem_free(greeting, 32);
    for (int j = 0; j < STRINGS; j++)
        for (int i = 0; i < LENGTHS; i++) {
            strings[i][j] = some(strlen(texts[i]) + 1);
            strcpy(strings[i][j], texts[i]);
        }
    for (int j = 0; j < STRINGS; j++) {
        for (int i = LENGTHS - 1; i >= 0; i--) {
            if (strcmp(strings[i][j], texts[i]) != 0) fail("a string has changed");
            umem_free(strings[i][j], strlen(texts[i]) + 1);
        }
        if (j % 25 == 0) umem_reap();
    }
    free(malloc(10));
    puts("done");
    return 0;
}
