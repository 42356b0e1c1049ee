// Tests vmem_segment_xalloc exhaustively: every arrangement of a small arena, every constraint, every policy, against brute force.
// vmem_test does the same for sequences of operations without constraints.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include "unit.h"

enum { QUANTA = 7, FIRST = 5, END = FIRST + QUANTA, MOST_ALIGN = 8 };

static struct vmem arena;
static unsigned used; // bit i: integer FIRST + i
static unsigned long requests, found;

static bool satisfies(const struct vmem_constraint *c, size_t start, size_t size) {
    return (c->align == 0 || (start - c->phase) % c->align == 0) && (c->nocross == 0 || start / c->nocross == (start + size - 1) / c->nocross) &&
           start >= c->least && (c->most == 0 || start + size <= c->most);
}

static bool is_free(size_t start, size_t size) {
    return start >= FIRST && start + size <= END && ((((1u << size) - 1) << (start - FIRST)) & used) == 0;
}

static bool place_exists(const struct vmem_constraint *c, size_t size) {
    for (size_t start = FIRST; start + size <= END; start++)
        if (is_free(start, size) && satisfies(c, start, size))
            return true;
    return false;
}

static void request(const struct vmem_constraint *c, size_t size, enum vmem_policy policy) {
    size_t start = vmem_segment_xalloc(&arena, size, c, policy, 0).start;

    CHECK_SAY((start != 0) == place_exists(c, size) && (start == 0 || (is_free(start, size) && satisfies(c, start, size))),
              "used %x, policy %d, size %zu align %zu phase %zu nocross %zu least %zu most %zu: got %zu", used, policy, size, c->align, c->phase,
              c->nocross, (size_t)c->least, (size_t)c->most, start);
    requests++;
    if (start == 0)
        return;
    found++;
    CHECK(vmem_segment_free(&arena, start, size, VMEM_CLEAN));
}

// 0 is no constraint; then 1, 2, 4, ….
static size_t power(unsigned i) {
    return i == 0 ? 0 : (size_t)1 << (i - 1);
}

static void every_limit(struct vmem_constraint c, enum vmem_policy policy) {
    for (size_t size = 1; size <= QUANTA; size++)
        for (c.least = 0; c.least < END; c.least = c.least == 0 ? FIRST + 1 : c.least + 1)
            for (c.most = 0; c.most <= END; c.most = c.most == 0 ? FIRST : c.most + 1)
                request(&c, size, policy);
}

static void every_constraint(enum vmem_policy policy) {
    for (unsigned align = 0; power(align) <= MOST_ALIGN; align++)
        for (size_t phase = 0; phase == 0 || phase < power(align); phase++)
            for (unsigned nocross = 0; power(nocross) <= MOST_ALIGN; nocross++)
                every_limit((struct vmem_constraint){ .align = power(align), .phase = phase, .nocross = power(nocross) }, policy);
}

// The free integers of the arrangement are freed one by one, so that they join.
static void arrange(unsigned which, enum vmem_policy policy) {
    used = which;
    vmem_init(&arena, "every", 0, policy, RANK_PAGES);
    CHECK(vmem_span_add(&arena, FIRST, QUANTA));
    for (size_t i = 0; i < QUANTA; i++)
        CHECK_EQ(vmem_segment_alloc(&arena, 1).start, FIRST + i);
    for (size_t i = 0; i < QUANTA; i++)
        if ((used >> i & 1) == 0)
            CHECK(vmem_segment_free(&arena, FIRST + i, 1, VMEM_CLEAN));
}

int main(void) {
    static const enum vmem_policy policies[] = { VMEM_INSTANTFIT, VMEM_BESTFIT, VMEM_FIRSTFIT, VMEM_NEXTFIT };

    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        for (unsigned which = 0; which < 1u << QUANTA; which++) {
            arrange(which, policies[i]);
            every_constraint(policies[i]);
            vmem_check(&arena);
            vmem_fini(&arena);
        }
    printf("%lu requests, %lu of them had a place\n", requests, found);
    return 0;
}
