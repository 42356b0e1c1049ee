// How many mappings a program has, and using up all that it may have (vm.max_map_count).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "../check.h"

#include <errno.h>
#include <sys/mman.h>

static inline long allowed(void) {
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    long count = 65530;
    if (file != NULL) {
        CHECK_EQ(fscanf(file, "%ld", &count), 1);
        fclose(file);
    }
    return count;
}

static inline long mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    long count = 0;
    CHECK(file != NULL);
    for (int byte; (byte = getc(file)) != EOF;)
        count += byte == '\n';
    fclose(file);
    return count;
}

// Every second page of a reservation gets another protection. Its start, so that the caller may give some back.
static inline char *use_up(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = (size_t)allowed() + 100;
    char *pages = mmap(NULL, 2 * count * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (size_t i = 0; i < count; i++)
        if (mprotect(pages + 2 * i * page, page, PROT_READ) != 0)
            break;
    CHECK_EQ(errno, ENOMEM);
    return pages;
}
