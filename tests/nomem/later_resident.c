// RLIMIT_AS set by a program of which much is resident: what is given back then costs far less than to let the kernel look at each page, which servers
// that limit a child between fork and exec would pay each time.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "../check.h"

enum { MEBIBYTE = 1 << 20, RESIDENT = 128 * MEBIBYTE, SHARE = 4 };

static long spent_us(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static long look_at_pages(void) {
    long begun = spent_us();
    char bytes[4096];
    int file = open("/proc/self/smaps", O_RDONLY);
    if (file < 0)
        exit(SKIPPED);
    while (read(file, bytes, sizeof bytes) > 0)
        continue;
    close(file);
    return spent_us() - begun;
}

static size_t address_space(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void) {
    struct rlimit limit;
    long begun, look;
    char *memory = mmap(NULL, RESIDENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, RESIDENT, MADV_NOHUGEPAGE);
    memset(memory, 1, RESIDENT);
    free(malloc(1));
    look = look_at_pages();
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = address_space();
    begun = spent_us();
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    begun = spent_us() - begun;
    CHECK_SAY(begun < look / SHARE + 1000, "%ld us to set the limit, %ld to look at all pages", begun, look);
    return 0;
}
