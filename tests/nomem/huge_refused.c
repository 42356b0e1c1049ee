// An arena of huge pages that are not to be had, nor other memory in their place: the addresses that were for them are free again, however often it is
// tried.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"
#include "vmag/arenas.h"

enum { TIMES = 2000 };
static const size_t most = (size_t)1 << 30;

static bool refused, next_too;

// In place of the C library's: none of huge pages, and no memory in their place while it is refused.
void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    bool is_huge = (flags & MAP_HUGETLB) != 0, fails = is_huge || (refused && next_too);

    next_too = is_huge;
    if (!fails)
        return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

static size_t mapped(void) {
    uint64_t epoch = 1;
    size_t bytes, size = sizeof bytes;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.mapped", &bytes, &size, NULL, 0), 0);
    return bytes;
}

int main(void) {
    int arena = vmag_arena_create_huge(), flags;
    size_t before;
    char *object;

    CHECK_GE(arena, 0);
    flags = MALLOCX_ARENA((unsigned)arena) | MALLOCX_TCACHE_NONE;
    before = mapped();
    refused = true;
    for (int i = 0; i < TIMES; i++)
        CHECK(mallocx(most, flags) == NULL);
    CHECK_LE(mapped(), before); // less when what lay idle went back meanwhile
    refused = false;
    CHECK((object = mallocx(most, flags)) != NULL);
    object[0] = object[most - 1] = 1;
    dallocx(object, flags);
    return 0;
}
