// The library's constructor allocates before any of ours ran; its destructor frees after all of ours ran and ends the process with 0.
// Its fork handlers allocate, and are registered before any that an allocator's constructor could register.
// SPDX-License-Identifier: BSD-2-Clause
#include "dependency_library.h"

#include "../check.h"
#include "../support/pattern.h"

#include <pthread.h>

enum { BLOCKS = 200 };
static void *blocks[BLOCKS];

static size_t size_of(int index) {
    return (size_t)index * index * 3 + 1;
}

static void allocate_a_little(void) {
    for (size_t size = 16; size < 100000; size *= 5) {
        void *block = malloc(size);
        CHECK(block != NULL);
        memset(block, 1, size);
        free(block);
    }
}

__attribute__((constructor)) static void take(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], size_of(i), i);
    }
    CHECK_EQ(pthread_atfork(allocate_a_little, allocate_a_little, allocate_a_little), 0);
}

void dependency_check(void) {
    for (int i = 0; i < BLOCKS; i++)
        pattern_verify(blocks[i], size_of(i), i);
}

__attribute__((destructor)) static void give_back(void) {
    dependency_check();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    allocate_a_little();
    _exit(0);
}
