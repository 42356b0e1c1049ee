// A program whose objects drift from size to size: what it holds stays the same, and so does what it keeps resident.
// Objects are freed in random order, so that what magazines keep of them lies in as many slabs as it can.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"
#include "../support/sizes.h"

enum { LIVE = 64 << 20, LEAST = 48, MOST = 150 };

static void *objects[LIVE / LEAST];

static void allocate(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        objects[i] = malloc(size);
        CHECK(objects[i] != NULL);
        memset(objects[i], 1, size);
    }
}

static void free_shuffled(size_t count, uint64_t *random) {
    for (size_t left = count; left > 0; left--) {
        size_t at = random_below(random, left);
        free(objects[at]);
        objects[at] = objects[left - 1];
    }
}

int main(void) {
    uint64_t random = 88172645463325252u;
    long before = anonymous_bytes();
    for (size_t size = LEAST; size < MOST; size = size * 5 / 4) {
        size_t count = LIVE / size;
        allocate(count, size);
        long held = anonymous_bytes() - before;
        say("%zu objects of %zu bytes: %ld MiB resident", count, size, held >> 20);
        CHECK_LT(held, 2l * LIVE);
        free_shuffled(count, &random);
    }
    return 0;
}
