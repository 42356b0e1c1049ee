// Takes memory until there is none, frees it, and takes it again: refusals say ENOMEM, nothing is lost, life goes on.
// `exhaust LEAST_MIB`: each round must reach that much before the first refusal.  limits.py sets the limits.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"

enum { ROUNDS = 3 };

// Blocks are chained through their first word, so that the test itself needs no memory.
struct link {
    struct link *next;
    size_t size;
};

static struct link *take_all(size_t size, size_t *bytes) {
    struct link *chain = NULL;
    *bytes = 0;
    for (;;) {
        errno = 0;
        struct link *block = malloc(size);
        if (block == NULL) {
            CHECK_EQ(errno, ENOMEM);
            return chain;
        }
        *block = (struct link){chain, size};
        pattern_fill_range(block, sizeof *block, size < 4096 ? size : 4096, (uintptr_t)block);
        chain = block;
        *bytes += size;
    }
}

static void give_back(struct link *chain) {
    while (chain != NULL) {
        struct link *next = chain->next;
        pattern_verify_range(chain, sizeof *chain, chain->size < 4096 ? chain->size : 4096, (uintptr_t)chain);
        free(chain);
        chain = next;
    }
}

static void refusal_keeps_block(void) {
    char *block = malloc(1000);
    CHECK(block != NULL);
    memset(block, 7, 1000);
    CHECK(realloc(block, (size_t)1 << 40) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK(block[0] == 7 && block[999] == 7);
    free(block);
}

static void check_size(size_t size, size_t least) {
    size_t first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes;
        struct link *chain = take_all(size, &bytes);
        if (round == 0) {
            first = bytes;
            say("blocks of %zu: %zu MiB to be had", size, bytes >> 20);
            CHECK_SAY(bytes >= least, "only %zu MiB, wanted %zu", bytes >> 20, least >> 20);
        }
        CHECK_SAY(bytes >= first / 10 * 9, "round %d of size %zu: %zu KiB, %zu in the first", round, size, bytes >> 10, first >> 10);
        give_back(chain);
        refusal_keeps_block();
    }
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    size_t least = strtoul(arguments[1], NULL, 10) << 20;
    alarm(600);
    check_size(32, least);
    check_size(1000, least);
    check_size(20000, least);
    check_size(300000, least);
    check_size(3 << 20, least);
    check_size(48, least);
    return 0;
}
