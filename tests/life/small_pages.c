// A small heap asks for small pages: where the system gives huge ones unasked (THP "always") each of its chunks would be resident as a whole, which a small
// program would be twice as large by. With thp:never, and `small_pages never`, a large one, too.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The kernel's flags of the mapping in which the address lies.
static void flags_of(const void *address, char *flags, size_t size) {
    char line[512];
    uintptr_t start, end;
    bool there = false;
    FILE *file = fopen("/proc/self/smaps", "r");

    CHECK(file != NULL);
    flags[0] = '\0';
    while (flags[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            there = start <= (uintptr_t)address && (uintptr_t)address < end;
        else if (there && strncmp(line, "VmFlags:", 8) == 0)
            snprintf(flags, size, "%s", line + 8);
    }
    fclose(file);
}

enum { BLOCKS = 20000, SIZE = 1000, HUGE_OBJECT = 20 << 20 };

// In a heap that has become large, and of one of its large objects.
static void check_all(void) {
    static char *blocks[BLOCKS];
    char flags[256], *huge = malloc(HUGE_OBJECT);

    CHECK(huge != NULL);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    for (int i = 0; i < BLOCKS; i += BLOCKS / 10) {
        flags_of(blocks[i], flags, sizeof flags);
        CHECK_SAY(strstr(flags, " nh") != NULL, "object %d's mapping has%s", i, flags);
    }
    flags_of(huge + HUGE_OBJECT / 2, flags, sizeof flags);
    CHECK_SAY(strstr(flags, " nh") != NULL, "a huge object's mapping has%s", flags);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(huge);
}

int main(int count, char **arguments) {
    char flags[256], *object = malloc(24), *larger = malloc(20000);

    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
        SKIP("this kernel has no transparent huge pages");
    CHECK(object != NULL && larger != NULL);
    flags_of(object, flags, sizeof flags);
    CHECK_SAY(strstr(flags, " nh") != NULL, "a small object's mapping has%s", flags);
    flags_of(larger, flags, sizeof flags);
    CHECK_SAY(strstr(flags, " nh") != NULL, "a larger object's mapping has%s", flags);
    if (count > 1 && strcmp(arguments[1], "never") == 0)
        check_all();
    free(larger);
    free(object);
    return 0;
}
