// A table of live objects in which random ones are replaced: the heart of replace.c and server.c.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef BENCH_TABLE_OF_OBJECTS_H
#define BENCH_TABLE_OF_OBJECTS_H

#include "crew.h"
#include "patterns.h"

#include <stdlib.h>

struct slot {
    void *object;
    uint32_t bytes;
};

// A size whose doublings are equally likely: 16 to 32 as often as 512 KiB to 1 MiB.
static inline uint32_t log_size(uint64_t bits, uint32_t smallest, uint32_t largest) {
    const uint32_t doublings = (uint32_t)(__builtin_clz(smallest) - __builtin_clz(largest));
    const uint32_t base = smallest << random_scale((uint32_t)(bits >> 44) << 12, doublings);
    return base + random_scale((uint32_t)bits, base + 1);
}

static inline void require_zero(const void *object, uint32_t bytes) {
    const char *const bytes_of = object;
    if (*(const uint64_t *)object != 0 || bytes_of[bytes / 2] != 0 || bytes_of[bytes - 1] != 0) fail("calloc gave memory that is not zero");
}

static inline struct slot slot_make(const struct pattern *pattern, enum replacement how, uint64_t bits) {
    struct slot slot;
    slot.bytes = how == replace_log_size ? log_size(bits, pattern->smallest, pattern->largest) : random_between((uint32_t)bits, pattern->smallest, pattern->largest);
    slot.object = how == replace_zeroed ? calloc(1, slot.bytes) : malloc(slot.bytes);
    if (how == replace_zeroed && slot.object != NULL) require_zero(slot.object, slot.bytes);
    touch(slot.object, slot.bytes);
    return slot;
}

// The last use before an object dies: it must still hold what touch wrote.
static inline void slot_use(const struct slot *slot) {
    uint64_t *const first = slot->object;
    if (*first != slot->bytes) fail("an object changed while it was alive");
    *first = 0;
}

static inline void table_fill(struct worker *worker, struct slot *slots, uint32_t count, enum replacement how) {
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = slot_make(worker->pattern, how, random_next(&worker->random));
        live_add(worker, slots[i].bytes);
    }
}

static inline void table_replace(struct worker *worker, struct slot *slots, uint32_t count, enum replacement how, uint64_t operations) {
    struct random random = worker->random;
    for (uint64_t i = 0; i < operations; i++) {
        const uint64_t bits = random_next(&random);
        struct slot *const slot = &slots[random_scale((uint32_t)(bits >> 32), count)];
        if (how == replace_using) slot_use(slot);
        free(slot->object);
        worker->live -= slot->bytes;
        *slot = slot_make(worker->pattern, how, bits * UINT64_C(0x2545F4914F6CDD1D));
        live_add(worker, slot->bytes);
    }
    worker->random = random;
    worker->operations_done += operations;
}

static inline void table_empty(struct worker *worker, struct slot *slots, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        free(slots[i].object);
        worker->live -= slots[i].bytes;
    }
}

#endif
