// The address space is used up, and most of the heap is free: objects of one size, freed, leave as much for those of another, and metadata comes from the heap.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>

#include "../check.h"

enum { MIB = 1 << 20, LARGE = 100000, LARGE_COUNT = 1000, KEPT = 4, MOST = 8 * MIB };

static void **objects, **large;

// All that may be mapped is, but for what the heap has.
static void use_up_addresses(void) {
    struct rlimit limit = {1 << 30, RLIM_INFINITY};

    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t step = 256 * MIB; step >= 4096; step /= 2)
        while (mmap(NULL, step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            continue;
}

static void check_size(size_t size, size_t free_bytes) {
    size_t count = 0, wrong = 0;

    while (count < MOST && (objects[count] = malloc(size)) != NULL) {
        memset(objects[count], (int)count, size);
        count++;
    }
    say("objects of %zu: %zu KiB of %zu", size, count * size >> 10, free_bytes >> 10);
    CHECK(count * size >= free_bytes / 3 * 2);
    for (size_t i = 0; i < count; i++) {
        wrong += ((unsigned char *)objects[i])[size - 1] != (unsigned char)i;
        free(objects[i]);
    }
    CHECK_EQ(wrong, 0);
}

int main(void) {
    const size_t sizes[] = {3000, 24, 200, 20000, 24, 100000, 1000, 300, 3000};
    size_t free_bytes = 0;

    objects = mmap(NULL, MOST * sizeof *objects, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    large = mmap(NULL, LARGE_COUNT * sizeof *large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(objects != MAP_FAILED && large != MAP_FAILED);
    for (int i = 0; i < LARGE_COUNT; i++) {
        CHECK((large[i] = malloc(LARGE)) != NULL);
        memset(large[i], i, LARGE);
    }
    use_up_addresses();
    for (int i = 0; i < LARGE_COUNT; i++)
        if (i % KEPT != 0) {
            free(large[i]);
            free_bytes += LARGE;
        }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_size(sizes[i], free_bytes);
    for (int i = 0; i < LARGE_COUNT; i += KEPT)
        CHECK(((unsigned char *)large[i])[0] == (unsigned char)i && ((unsigned char *)large[i])[LARGE - 1] == (unsigned char)i);
    return 0;
}
