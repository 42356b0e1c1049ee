// What a debugger writes into a core, which takes every area that is not marked as to be left out, whether its pages are there or not: not much more than
// the heap; and the words of the map that are in use are among it.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <stdbool.h>

enum { MEBIBYTE = 1 << 20, HEAP_MIB = 200, MORE_MIB = 24 };

// Private areas without a file.
static long dumped_kib(void) {
    char line[512];
    long sum = 0, size = 0;
    bool is_private = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long start, end, inode;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, rights, &inode) == 4) {
            size = (long)((end - start) / 1024);
            is_private = rights[3] == 'p' && inode == 0 && strstr(line, "[v") == NULL;
        } else if (strncmp(line, "VmFlags:", 8) == 0 && is_private && strstr(line, " dd") == NULL)
            sum += size;
    }
    fclose(file);
    return sum;
}

int main(void) {
    static char *blocks[HEAP_MIB];
    long before = dumped_kib();
    say("%ld KiB at first", before);
    CHECK_LT(before, (long)MORE_MIB * 1024);
    for (int i = 0; i < HEAP_MIB; i++)
        CHECK((blocks[i] = malloc(MEBIBYTE)) != NULL);
    long after = dumped_kib();
    say("%ld KiB with %d MiB", after, HEAP_MIB);
    CHECK_GE(after, (long)HEAP_MIB * 1024);
    CHECK_LT(after, (long)(HEAP_MIB + MORE_MIB) * 1024);
    for (int i = 0; i < HEAP_MIB; i++)
        free(blocks[i]);
    return 0;
}
