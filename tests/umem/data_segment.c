// UMEM_OPTIONS=backend=sbrk: memory is of the data segment, beside what the program itself takes there. `data_segment [blocked|confined|later]`.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <umem.h>
#include <unistd.h>

#include "../check.h"
#include "../support/child.h"
#include "../support/pattern.h"

enum { OBJECTS = 300, THREADS = 3, ROUNDS = 4, MINE = 5000 };

extern char end[]; // of the program's own data

static size_t size_of(size_t i) {
    return 1 + i * 37 % 2000 + (i % 60 == 0 ? 700000u : 0) + (i % 150 == 0 ? 5000000u : 0);
}

static int is_in_segment(const void *address) {
    return (uintptr_t)address >= (uintptr_t)end && (uintptr_t)address < (uintptr_t)sbrk(0);
}

static void *churn(void *inside) {
    unsigned char *objects[OBJECTS];

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < OBJECTS; i++) {
            objects[i] = umem_alloc(size_of(i), UMEM_NOFAIL);
            CHECK(inside == NULL || is_in_segment(objects[i]));
            pattern_fill(objects[i], size_of(i), (uintptr_t)objects[i]);
        }
        for (size_t i = 0; i < OBJECTS; i++) {
            pattern_verify(objects[i], size_of(i), (uintptr_t)objects[i]);
            umem_free(objects[i], size_of(i));
        }
    }
    return NULL;
}

static void churn_together(void) {
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, &threads), 0);
    churn(&threads);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

// No other thread runs while the program itself takes some: the C library's sbrk takes no lock.
static void test_neighbours(void) {
    unsigned char *mine[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        void *large;
        mine[i] = sbrk(MINE);
        CHECK(mine[i] != (void *)-1);
        pattern_fill(mine[i], MINE, (uint64_t)i);
        large = umem_zalloc(20000000u * (size_t)(i + 1), UMEM_NOFAIL);
        CHECK(is_in_segment(large));
        umem_free(large, 20000000u * (size_t)(i + 1));
        churn_together();
    }
    for (int i = 0; i < ROUNDS; i++)
        pattern_verify(mine[i], MINE, (uint64_t)i);
}

static void test_fork(void) {
    pid_t child = fork();

    if (child == 0) {
        churn_together();
        _exit(0);
    }
    churn_together();
    expect_child(child);
}

// Something is in the segment's way: mapped memory serves.
static void test_blocked(void) {
    enum { LARGE = 30000000 };
    void *some = umem_alloc(100, UMEM_NOFAIL), *large;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), above = ((uintptr_t)sbrk(0) + page - 1) / page * page;

    CHECK(is_in_segment(some));
    CHECK(mmap((void *)above, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)above);
    large = umem_zalloc(LARGE, UMEM_NOFAIL);
    CHECK(!is_in_segment(large));
    umem_free(large, LARGE);
    churn(NULL);
    umem_free(some, 100);
}

static int refused; // how many times the words of the page map are not to be writable

int mprotect(void *address, size_t size, int protection) {
    if (refused > 0 && refused-- > 0) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_mprotect, address, size, protection);
}

// There is no memory for the page map's words, once: that time memory is mapped, later it is of the segment again, and nothing of that lost.
static void test_later(void) {
    enum { LARGE = 32 << 20, SOME = 8 };
    char *before = umem_alloc(LARGE, UMEM_NOFAIL), *mapped, *after;

    CHECK(is_in_segment(before));
    refused = 1;
    mapped = umem_alloc(LARGE, UMEM_NOFAIL);
    CHECK(refused == 0 && !is_in_segment(mapped));
    for (int i = 0; i < SOME; i++) {
        after = umem_alloc(LARGE, UMEM_NOFAIL);
        CHECK(is_in_segment(after) && after > before);
        CHECK_LE(after - before, LARGE + LARGE / 4);
        before = after;
    }
}

int main(int count, char **arguments) {
    if (count > 1) {
        if (arguments[1][0] == 'b')
            test_blocked();
        if (arguments[1][0] == 'l')
            test_later();
        churn(NULL); // confined: too little address space for a page map that reaches the segment
        return 0;
    }
    churn_together();
    test_neighbours();
    test_fork();
    return 0;
}
