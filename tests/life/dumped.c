// What a debugger writes into a core, which takes every area that is not marked as to be left out, whether its pages are there or not: not much more than
// the heap; and the words of the map that are in use are among it.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <stdbool.h>

enum { MEBIBYTE = 1 << 20, HEAP_MIB = 200, MORE_MIB = 24, LARGE_KIB = 1024 };

// Of private areas without a file. `map_dumped`: whether the writable area right before a large one that is left out, the rest of the map, is among them.
static long dumped_kib(bool *map_dumped) {
    char line[512];
    long sum = 0, size = 0;
    unsigned long end_before = 0;
    bool is_private = false, is_next = false, writable = false, dumped_before = false;
    *map_dumped = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long start, end, inode;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, rights, &inode) == 4) {
            size = (long)((end - start) / 1024);
            is_private = rights[3] == 'p' && inode == 0 && strstr(line, "[v") == NULL;
            is_next = start == end_before;
            writable = rights[1] == 'w';
            end_before = end;
        } else if (strncmp(line, "VmFlags:", 8) == 0) {
            bool dumped = is_private && strstr(line, " dd") == NULL;
            if (is_next && size >= LARGE_KIB && !writable && !dumped && dumped_before)
                *map_dumped = true;
            dumped_before = dumped && writable;
            sum += dumped ? size : 0;
        }
    }
    fclose(file);
    return sum;
}

int main(void) {
    static char *blocks[HEAP_MIB];
    bool map_dumped;
    long before = dumped_kib(&map_dumped);
    say("%ld KiB at first", before);
    CHECK_LT(before, (long)MORE_MIB * 1024);
    for (int i = 0; i < HEAP_MIB; i++)
        CHECK((blocks[i] = malloc(MEBIBYTE)) != NULL);
    long after = dumped_kib(&map_dumped);
    say("%ld KiB with %d MiB", after, HEAP_MIB);
    CHECK_GE(after, (long)HEAP_MIB * 1024);
    CHECK(map_dumped);
    CHECK_LT(after, (long)(HEAP_MIB + MORE_MIB) * 1024);
    for (int i = 0; i < HEAP_MIB; i++)
        free(blocks[i]);
    return 0;
}
