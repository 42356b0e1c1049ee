// errno: kept by free, ENOMEM from impossible requests, PTRDIFF_MAX and above refused, success leaves it alone.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/family.h"
#include "../support/sizes.h"

#include <pthread.h>
#include <sched.h>

static void check_impossible(size_t size) {
    errno = 0;
    CHECK_SAY(malloc(size) == NULL, "malloc(%zu) succeeded", size);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(calloc(1, size) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(calloc(size, 1) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
    CHECK(realloc(NULL, size) == NULL);
    CHECK_EQ(errno, ENOMEM);
}

// The heap may give pages back to the kernel inside free; the caller's errno must not see it.
static void check_free_keeps(size_t size) {
    enum { COUNT = 40 };
    void *blocks[COUNT];
    size_t count = size > 1 << 20 ? 3 : COUNT;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size < 100 ? size : 100);
    }
    for (size_t i = 0; i < count; i++) {
        errno = 4711;
        if (i % 2)
            free(blocks[i]);
        else
            free_sized(blocks[i], size);
        CHECK_EQ(errno, 4711);
    }
    errno = 4711;
    free(NULL);
    CHECK_EQ(errno, 4711);
}

// A lucky call tells nothing through errno; programs like tar test it after the fact.
static void check_success_keeps(size_t size) {
    errno = 4711;
    void *block = malloc(size);
    CHECK_EQ(errno, 4711);
    block = realloc(block, 2 * size + 1);
    CHECK_EQ(errno, 4711);
    void *other = calloc(1, size);
    CHECK_EQ(errno, 4711);
    free(other);
    free(block);
}

// When threads become several, and when one comes to another processor, malloc may count processors, in files that may not be there.
static void *allocate_first(void *unused) {
    errno = 4711;
    free(malloc(100));
    CHECK_EQ(errno, 4711);
    return unused;
}

static void check_everywhere(void) {
    cpu_set_t all, one;
    pthread_t thread;

    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        allocate_first(NULL);
    }
    CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
    CHECK_EQ(pthread_create(&thread, NULL, allocate_first, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(void) {
    check_everywhere();
    check_impossible(SIZE_MAX);
    check_impossible(SIZE_MAX - 1);
    check_impossible(SIZE_MAX - 15);
    check_impossible(SIZE_MAX - 4095);
    check_impossible(SIZE_MAX / 2 + 1);
    check_impossible((size_t)PTRDIFF_MAX);
    check_impossible((size_t)PTRDIFF_MAX - 4096);
    check_impossible((size_t)1 << 62);
    check_impossible((size_t)1 << 50);
    each_class_size((size_t)32 << 20, check_free_keeps);
    each_class_size((size_t)32 << 20, check_success_keeps);
    return 0;
}
