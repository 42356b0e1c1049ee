// Takes memory in huge pages, writes to it and gives it back, so that what runs next finds the machine as whatever ran before it did.
//
//   touch MIB
//
// In a virtual machine that tells its host which memory is free, a huge page that nobody had for some seconds takes fifteen times as long as
// one that was just given back: without this an allocator's time would be that of its place in the order of runs (docs/decisions/0005).
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

#include <err.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, PAGE = 4096 };

int main(int count, char **words) {
    const size_t mib = (size_t)program_number(words, count, 1, 256), bytes = mib << 20;
    char *const memory = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) err(1, "%zu MiB", mib);
    madvise(memory, bytes + HUGE_PAGE, MADV_HUGEPAGE); // refused where there are none: then it is small pages
    for (size_t at = 0; at < bytes; at += PAGE) memory[at] = 1;
    return 0;
}
