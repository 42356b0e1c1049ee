// vm.max_map_count: a heap of many large objects leaves the program half of the mappings it may have; and when the program has
// used them all up, large objects are allocated, freed and given back all the same, however long and whatever their sizes.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"

#include <malloc.h>

#include "jemalloc/jemalloc.h"
#include "mapping_count.h"

enum { UNTOUCHED = 36000, UNTOUCHED_BYTES = 3000000, BLOCKS = 60, BLOCK_BYTES = 3 << 20, ROUNDS = 20, KIBIBYTE = 1024 };

// As much as 109 GB of address space, of which nothing is touched.
static void check_many_large(void) {
    static void *blocks[UNTOUCHED];
    int count = 0;
    while (count < UNTOUCHED && (blocks[count] = malloc((size_t)UNTOUCHED_BYTES + (size_t)(count % 5) * 400 * KIBIBYTE)) != NULL)
        count++;
    say("%d blocks in %ld mappings of %ld", count, mappings(), allowed());
    CHECK_LT(mappings(), allowed() / 4 * 3);
    while (count > 0)
        free(blocks[--count]);
    malloc_trim(0);
}

static size_t bytes_of(int i, int round) {
    return BLOCK_BYTES + (size_t)((i + round) % BLOCKS) * 64 * KIBIBYTE;
}

static void check_used_up(void) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        pattern_fill(blocks[i] = malloc(bytes_of(i, 0)), bytes_of(i, 0), (uintptr_t)i);
    use_up();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i += 2)
            free(blocks[i]);
        malloc_trim(0);
        for (int i = 0; i < BLOCKS; i += 2) {
            CHECK_SAY((blocks[i] = malloc(bytes_of(i, round))) != NULL, "round %d, block %d, %ld mappings", round, i, mappings());
            pattern_fill(blocks[i], bytes_of(i, round), (uintptr_t)i);
        }
        for (int i = 0; i < BLOCKS; i++)
            pattern_verify(blocks[i], bytes_of(i, i % 2 == 0 ? round : 0), (uintptr_t)i);
    }
}

static size_t mapped_bytes(void) {
    uint64_t epoch = 1;
    size_t bytes, size = sizeof bytes;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.mapped", &bytes, &size, NULL, 0), 0);
    return bytes;
}

// Chunks of an arena among those of others cannot be unmapped any more when it is destroyed: who comes later has them.
static void check_arenas(void) {
    enum { LATER = BLOCKS + BLOCKS / 4 * 3 }; // a chunk at an end of the heap may have been unmapped after all
    static void *others[LATER];
    unsigned arena;
    size_t size = sizeof arena, before;
    char name[40];
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    for (int i = 0; i < BLOCKS; i++) {
        void *block = mallocx(BLOCK_BYTES, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
        CHECK(block != NULL && (others[i] = malloc(BLOCK_BYTES)) != NULL);
        memset(block, 1, BLOCK_BYTES);
    }
    use_up();
    before = mapped_bytes();
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    for (int i = BLOCKS; i < LATER; i++) {
        char *block = others[i] = calloc(1, BLOCK_BYTES);
        CHECK_SAY(block != NULL, "block %d", i);
        for (size_t at = 0; at < BLOCK_BYTES; at += 1000)
            CHECK_EQ(block[at], 0);
    }
    say("%zu MiB mapped, %zu afterwards", before >> 20, mapped_bytes() >> 20);
    CHECK_LE(mapped_bytes(), before + (size_t)BLOCKS / 4 * BLOCK_BYTES);
    for (int i = 0; i < LATER; i++)
        free(others[i]);
}

// `mappings used_up`: of a heap in which mappings were not scarce before; `mappings arenas`: of arenas that the program makes.
int main(int count, char **arguments) {
    if (count == 1)
        check_many_large();
    if (count > 1 && strcmp(arguments[1], "arenas") == 0) {
        check_arenas();
        return 0;
    }
    check_used_up();
    return 0;
}
