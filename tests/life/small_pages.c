// A small heap asks for small pages: where the system gives huge ones unasked (THP "always") each of its chunks would be resident as a whole, which a small
// program would be twice as large by.
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

int main(void) {
    char flags[256], *object = malloc(24), *larger = malloc(20000);

    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
        SKIP("this kernel has no transparent huge pages");
    CHECK(object != NULL && larger != NULL);
    flags_of(object, flags, sizeof flags);
    CHECK_SAY(strstr(flags, " nh") != NULL, "a small object's mapping has%s", flags);
    flags_of(larger, flags, sizeof flags);
    CHECK_SAY(strstr(flags, " nh") != NULL, "a larger object's mapping has%s", flags);
    free(larger);
    free(object);
    return 0;
}
