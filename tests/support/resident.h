// How much memory this process holds, read from /proc without allocating.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_RESIDENT_H
#define VMAG_TESTS_RESIDENT_H

#include "../check.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>

// Where the kernel backs everything with huge pages, it is the kernel that decides what is resident: not so in the tests that measure.
__attribute__((constructor)) static void refuse_huge_pages(void) {
    char text[64] = { 0 };
    int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (length > 0 && strstr(text, "[always]") != NULL)
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (file >= 0)
        close(file);
}

// The number after `key` in a /proc file of "Key:   123 kB" lines, in bytes; -1 when the file or the key is missing.
static inline long proc_kilobytes(const char *path, const char *key) {
    char text[8192];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return -1;
    text[length] = 0;
    const char *found = strstr(text, key);
    return found ? strtol(found + strlen(key), NULL, 10) * 1024 : -1;
}

// Resident bytes.  smaps_rollup walks the page tables and is exact; status is off by up to some pages a CPU.
static inline long resident_bytes(void) {
    long exact = proc_kilobytes("/proc/self/smaps_rollup", "\nRss:");
    long bytes = exact >= 0 ? exact : proc_kilobytes("/proc/self/status", "\nVmRSS:");
    CHECK(bytes >= 0);
    return bytes;
}

// Resident bytes that no file backs: heap and stacks, not code that was paged in meanwhile.
static inline long anonymous_bytes(void) {
    long bytes = proc_kilobytes("/proc/self/smaps_rollup", "\nAnonymous:");
    return bytes >= 0 ? bytes : resident_bytes();
}

// Of these bytes alone, whole pages: what else the process holds, or is just giving back in another thread, does not count.
static inline size_t resident_bytes_of(const void *start, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), resident = 0;
    unsigned char in_memory;
    CHECK((uintptr_t)start % page == 0);
    for (size_t at = 0; at < size; at += page) {
        CHECK(mincore((char *)start + at, page, &in_memory) == 0);
        resident += in_memory & 1 ? page : 0;
    }
    return resident;
}

static inline long mapped_bytes(void) {
    return proc_kilobytes("/proc/self/status", "\nVmSize:");
}

#endif
