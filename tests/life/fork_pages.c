// What a forked child writes of the library's variables: they lie in two pages, with those that every program writes (layout/bss.ld). A server that forks
// has each of them once for every child.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_KIB = 8 };

// KiB that are the child's alone, of the mapping in which the library's zero memory begins.
static long written_kib(pid_t child, uintptr_t address) {
    char path[64], line[512];
    uintptr_t start, end;
    long kib = -1;
    bool there = false;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/smaps", (int)child);
    CHECK((file = fopen(path, "r")) != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            there = start <= address && address < end;
        else if (there && sscanf(line, "Private_Dirty: %ld", &kib) == 1)
            break;
    }
    fclose(file);
    return kib;
}

int main(void) {
    void *objects[100], *root = dlsym(RTLD_DEFAULT, "vmag_root");
    int ready[2], end[2];
    char byte = 1;
    pid_t child;
    long kib;

    CHECK(root != NULL && pipe(ready) == 0 && pipe(end) == 0);
    for (size_t i = 0; i < 100; i++)
        CHECK((objects[i] = malloc(1 + i * 40)) != NULL);
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        CHECK(write(ready[1], &byte, 1) == 1 && read(end[0], &byte, 1) == 1);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    kib = written_kib(child, (uintptr_t)root + 0x1000); // the page of the root itself may be in the file's mapping
    CHECK(write(end[1], &byte, 1) == 1 && waitpid(child, NULL, 0) == child);
    CHECK(kib >= 0);
    CHECK_LE(kib, MOST_KIB * (getpagesize() / 4096));
    for (size_t i = 0; i < 100; i++)
        free(objects[i]);
    return 0;
}
