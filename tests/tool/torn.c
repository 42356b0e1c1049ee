// A process whose memory is not what the library left there, for the tests of who reads it from outside: `torn KIND` spoils one thing,
// says "ready" and waits. After that it does not use its heap any more.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vmag/format.h>

enum { BLOCKS = 3000, LARGE_BYTES = 1 << 20, WORDS = 300, BASE_PAGE = 4096 };

struct mapping {
    uint64_t start, bytes;
};

static uint64_t state;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uint64_t odd_value(const void *place) {
    uint64_t here = (uint64_t)(uintptr_t)place;
    const uint64_t values[] = {0, UINT64_MAX, INT32_MAX, here, here - next_random() % 2048 * 8, 1ull << next_random() % 64, next_random()};
    return values[next_random() % (sizeof values / sizeof *values)];
}

static void *at(uint64_t address) {
    return (void *)(uintptr_t)address;
}

static uint64_t word_at(uint64_t address) {
    return *(uint64_t *)at(address);
}

static uint64_t run_of(const struct vmag_root *root, const void *object) {
    uint64_t address = (uint64_t)(uintptr_t)object, tables = word_at(root->run_tables);
    uint64_t table = word_at(tables + (address >> root->lg_table) * 8);
    return word_at(table + (address >> root->lg_granule) % (1u << (root->lg_table - root->lg_granule)) * 8);
}

static void spoil_root(struct vmag_root *root) {
    char *fields = (char *)root;
    size_t first = offsetof(struct vmag_root, lg_granule);
    for (int i = 0; i < 2; i++) {
        void *place = fields + first + next_random() % (root->bytes - first - 8) / 4 * 4;
        uint64_t value = odd_value(place);
        memcpy(place, &value, next_random() % 2 ? 4 : 8);
    }
}

// Words of the library's own memory that are not zero.
static void spoil_base(struct vmag_root *root) {
    const struct mapping *mappings = at(root->mappings);
    uint32_t count = *(uint32_t *)at(root->mappings_count);
    for (int spoilt = 0; spoilt < WORDS;) {
        const struct mapping *mapping = &mappings[next_random() % count];
        if (mapping->start == 0 || mapping->bytes < BASE_PAGE)
            continue;
        uint64_t *word = at(mapping->start + next_random() % (mapping->bytes / 8) * 8);
        if (*word != 0) {
            *word = odd_value(word);
            spoilt++;
        }
    }
}

static bool spoil(const char *kind, struct vmag_root *root, void *large) {
    uint64_t front = word_at(root->fronts);
    if (strcmp(kind, "fronts") == 0)
        *(uint64_t *)at(front + root->front_next) = front;
    else if (strcmp(kind, "length") == 0)
        *(uint64_t *)at(run_of(root, large) + root->run_bytes) = INT64_MAX;
    else if (strcmp(kind, "counts") == 0)
        root->arena_large_count = UINT32_MAX;
    else if (strncmp(kind, "root=", 5) == 0)
        spoil_root(root);
    else if (strncmp(kind, "base=", 5) == 0)
        spoil_base(root);
    else
        return strcmp(kind, "nothing") == 0;
    return true;
}

int main(int count, char **arguments) {
    static void *blocks[BLOCKS];
    struct vmag_root *root = dlsym(RTLD_DEFAULT, "vmag_root");
    CHECK(count == 2 && root != NULL);
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc((size_t)(i * 37 % 20000 + 1)), 1, 1);
    for (int i = 0; i < BLOCKS; i += 3)
        free(blocks[i]);
    const char *seed = strchr(arguments[1], '=');
    state = 88172645463325252ull + (seed == NULL ? 0 : strtoull(seed + 1, NULL, 10)) * 2654435761u;
    for (int i = 0; i < 20; i++)
        next_random();
    CHECK(spoil(arguments[1], root, malloc(LARGE_BYTES)));
    CHECK_EQ(write(STDOUT_FILENO, "ready\n", 6), 6);
    for (;;)
        pause();
}
