// A kernel that does not grant what it could: Linux 6.7 to 6.12 maps whole 2 MiB where they are wished for only if 2 MiB behind them are free as well. What lay
// between others and was given back must be had again, or addresses come to an end.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

enum { MIB = 1 << 20, HUGE_PAGE = 2 * MIB, BLOCKS = 8, ROUNDS = 2000 };

static unsigned refused;

static void *map(void *start, size_t size, int protection, int flags, int file, off_t offset) {
    return (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
}

static int is_free(void *start, size_t size) {
    void *p = map(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (p != MAP_FAILED)
        munmap(p, size);
    return p == start;
}

void *mmap(void *start, size_t size, int protection, int flags, int file, off_t offset) {
    int saved = errno;

    if (start != NULL && file < 0 && (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == 0 && size >= HUGE_PAGE && !is_free(start, size + HUGE_PAGE)) {
        start = NULL;
        refused++;
    }
    errno = saved;
    return map(start, size, protection, flags, file, offset);
}

// Those in the middle come and go, the last one stays.
static void check(size_t size) {
    char *blocks[BLOCKS], *lowest = NULL, *highest = NULL;

    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(size)) != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        char **block = &blocks[round % (BLOCKS - 1)];

        free(*block);
        malloc_trim(0);
        CHECK((*block = malloc(size)) != NULL);
        **block = 1;
        lowest = lowest == NULL || *block < lowest ? *block : lowest;
        highest = *block > highest ? *block : highest;
    }
    CHECK_LT((size_t)(highest - lowest), 4 * BLOCKS * size);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

int main(void) {
    check(HUGE_PAGE);
    check(3 * HUGE_PAGE);
    CHECK_GT(refused, 0);
    return 0;
}
