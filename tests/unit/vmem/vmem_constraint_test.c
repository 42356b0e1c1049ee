// Tests vmem_segment_xalloc's constraints (align, phase, nocross, least, most) against brute force: it returns a place that satisfies
// them exactly when there is one.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include "unit.h"

enum { QUANTA = 40, ARENAS = 300, REQUESTS = 200, FIRST = 37 };

struct space {
    struct vmem arena;
    unsigned lg_quantum;
    bool used[QUANTA];
};

static struct random random_source = { 43 };

static size_t any_power(unsigned lg_most) {
    size_t lg = random_below(&random_source, lg_most + 2);

    return lg == 0 ? 0 : (size_t)1 << (lg - 1);
}

// The arena begins at no round number, and random quanta of it are used.
static void space_make(struct space *space, unsigned lg_quantum) {
    memset(space, 0, sizeof *space);
    space->lg_quantum = lg_quantum;
    vmem_init(&space->arena, "constraints", lg_quantum, VMEM_INSTANTFIT, RANK_PAGES);
    CHECK(vmem_span_add(&space->arena, (uintptr_t)FIRST << lg_quantum, (size_t)QUANTA << lg_quantum));
    for (size_t i = 0; i < QUANTA; i++)
        CHECK_EQ(vmem_segment_alloc(&space->arena, (size_t)1 << lg_quantum).start, (FIRST + i) << lg_quantum);
    for (size_t i = 0; i < QUANTA; i++) {
        space->used[i] = random_below(&random_source, 8) == 0;
        if (!space->used[i])
            CHECK(vmem_segment_free(&space->arena, (FIRST + i) << lg_quantum, (size_t)1 << lg_quantum, VMEM_CLEAN));
    }
}

static bool satisfies(const struct vmem_constraint *c, uintptr_t start, size_t size) {
    if (c->align != 0 && (start - c->phase) % c->align != 0)
        return false;
    if (c->nocross != 0 && start / c->nocross != (start + size - 1) / c->nocross)
        return false;
    return start >= c->least && (c->most == 0 || start + size <= c->most);
}

static bool is_free(const struct space *space, size_t first, size_t quanta) {
    for (size_t i = first; i < first + quanta; i++)
        if (i >= QUANTA || space->used[i])
            return false;
    return true;
}

static bool place_exists(const struct space *space, const struct vmem_constraint *c, size_t quanta) {
    for (size_t i = 0; i < QUANTA; i++)
        if (is_free(space, i, quanta) && satisfies(c, (FIRST + i) << space->lg_quantum, quanta << space->lg_quantum))
            return true;
    return false;
}

// In quanta; `odd_limits`: least and most lie within quanta.
static struct vmem_constraint any_constraint(unsigned lg_quantum, bool odd_limits) {
    size_t align = any_power(5) << lg_quantum;
    struct vmem_constraint c = {
        .align = align,
        .phase = align == 0 ? 0 : random_below(&random_source, align >> lg_quantum) << lg_quantum,
        .nocross = any_power(6) << lg_quantum,
    };

    if (random_below(&random_source, 2) == 0)
        c.least = random_below(&random_source, FIRST + QUANTA) << lg_quantum;
    if (random_below(&random_source, 2) == 0)
        c.most = (1 + random_below(&random_source, FIRST + QUANTA + 9)) << lg_quantum;
    if (odd_limits && c.least != 0)
        c.least += random_below(&random_source, (size_t)1 << lg_quantum);
    if (odd_limits && c.most != 0)
        c.most += random_below(&random_source, (size_t)1 << lg_quantum);
    return c;
}

static void request(struct space *space, bool odd_limits) {
    struct vmem_constraint c = any_constraint(space->lg_quantum, odd_limits);
    size_t quanta = 1 + random_below(&random_source, 9), size = quanta << space->lg_quantum;
    bool exists = place_exists(space, &c, quanta);
    uintptr_t start = vmem_segment_xalloc(&space->arena, size, &c, VMEM_INSTANTFIT, 0).start;

    CHECK_SAY((start != 0) == exists && (start == 0 || satisfies(&c, start, size)),
              "size %zu align %zu phase %zu nocross %zu least %zu most %zu, quantum %u: got %zu, a place %s", size, c.align,
              c.phase, c.nocross, (size_t)c.least, (size_t)c.most, 1u << space->lg_quantum, (size_t)start,
              exists ? "exists" : "does not exist");
    if (start == 0)
        return;
    CHECK_EQ(start % ((size_t)1 << space->lg_quantum), 0);
    CHECK(is_free(space, (start >> space->lg_quantum) - FIRST, quanta));
    CHECK(vmem_segment_free(&space->arena, start, size, VMEM_CLEAN));
}

int main(void) {
    for (int i = 0; i < ARENAS; i++) {
        static struct space space;

        space_make(&space, i % 3 == 0 ? 0 : 4);
        for (int j = 0; j < REQUESTS; j++)
            request(&space, i % 3 == 2);
        vmem_check(&space.arena);
    }
    return 0;
}
