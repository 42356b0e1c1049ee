// Tests vmem/vmem.h in long random runs: alloc, free, extend, shrink and take_dirty against the model, all invariants checked
// after every step.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include "model.h"

enum { LG_QUANTUM = 12, STEPS = 40000 };
#define BASE ((uintptr_t)1 << 32)

static struct random random_source = { 2001 };

static size_t some_size(void) {
    size_t kind = random_below(&random_source, 10);

    return 1 + random_below(&random_source, kind < 6 ? 4 : kind < 8 ? 40 : kind < 9 ? 200 : 700);
}

static enum vmem_kind some_kind(void) {
    return random_below(&random_source, 3) > 0 ? VMEM_DIRTY : VMEM_CLEAN;
}

// The segment grows exactly when what lies behind it is free.
static void extend(struct model *model, size_t number, size_t more) {
    struct live *live = &model->live[number];
    size_t end = live->first + live->quanta, room = 0;

    while (end + room < model->quanta && model->state[end + room] != QUANTUM_LIVE)
        room++;
    struct vmem_piece piece = vmem_extend(model->arena, model_address(model, live->first), live->quanta << LG_QUANTUM,
                                          (live->quanta + more) << LG_QUANTUM);

    CHECK_EQ(piece.start, more <= room ? model_address(model, end) : 0);
    if (piece.start == 0)
        return;
    model_check_kind(model, end, more, piece.kind);
    model_set(model, end, more, QUANTUM_LIVE);
    live->quanta += more;
}

static void shrink(struct model *model, size_t number, size_t quanta) {
    struct live *live = &model->live[number];
    uintptr_t start = model_address(model, live->first);

    CHECK(vmem_shrink(model->arena, start, live->quanta << LG_QUANTUM, quanta << LG_QUANTUM));
    model_set(model, live->first + quanta, live->quanta - quanta, QUANTUM_DIRTY);
    live->quanta = quanta;
}

static void resize(struct model *model, size_t number) {
    size_t quanta = model->live[number].quanta;

    if (quanta > 1 && random_below(&random_source, 2) == 0)
        shrink(model, number, 1 + random_below(&random_source, quanta - 1));
    else
        extend(model, number, 1 + random_below(&random_source, 20));
}

static void resize_wrongly(struct model *model) {
    size_t first = random_below(&random_source, model->quanta - 1), quanta = some_size();

    for (size_t i = 0; i < model->lives; i++)
        if (model->live[i].first == first)
            quanta = model->live[i].quanta + 1;
    CHECK_EQ(vmem_extend(model->arena, model_address(model, first), quanta << LG_QUANTUM, (quanta + 1) << LG_QUANTUM).start, 0);
    CHECK(!vmem_shrink(model->arena, model_address(model, first), (quanta + 1) << LG_QUANTUM, quanta << LG_QUANTUM));
}

static void step(struct model *model) {
    size_t number = model->lives == 0 ? 0 : random_below(&random_source, model->lives);
    size_t action = random_below(&random_source, 100);

    if (model->lives == 0 || action < 45)
        model_alloc(model, some_size());
    else if (action < 80)
        model_free(model, number, some_kind());
    else if (action < 94)
        resize(model, number);
    else if (action < 97)
        resize_wrongly(model);
    else if (action < 99)
        model_free_wrongly(model, random_below(&random_source, model->quanta - 1), some_size());
    else
        model_clean(model, some_size());
}

static size_t live_bytes(const struct model *model) {
    size_t quanta = 0;

    for (size_t i = 0; i < model->quanta; i++)
        quanta += model->state[i] == QUANTUM_LIVE;
    return quanta << LG_QUANTUM;
}

static void long_run(enum vmem_policy policy, size_t quanta) {
    static struct model model;
    struct vmem arena;

    vmem_init(&arena, "random", LG_QUANTUM, policy, RANK_PAGES);
    CHECK(vmem_span_add(&arena, BASE, quanta << LG_QUANTUM));
    model = (struct model){ .arena = &arena, .base = BASE, .lg_quantum = LG_QUANTUM, .quanta = quanta };
    for (int i = 0; i < STEPS; i++) {
        step(&model);
        vmem_check(&arena);
        CHECK_EQ(arena.total_bytes - arena.bytes[VMEM_CLEAN] - arena.bytes[VMEM_DIRTY], live_bytes(&model));
    }
    model_empty(&model);
}

// Many live segments: the hash grows, and every one of them is still found.
static void many_segments(void) {
    enum { SEGMENTS = 100000 };
    static uintptr_t starts[SEGMENTS];
    struct vmem arena;

    vmem_init(&arena, "many", 0, VMEM_INSTANTFIT, RANK_PAGES);
    CHECK(vmem_span_add(&arena, 1, SEGMENTS * 2));
    for (size_t i = 0; i < SEGMENTS; i++)
        CHECK((starts[i] = vmem_segment_alloc(&arena, 2).start) != 0);
    CHECK(vmem_segment_alloc(&arena, 1).start == 0);
    CHECK(SEGMENTS <= 2 << arena.lg_buckets && SEGMENTS * 8 >= 1 << arena.lg_buckets);
    vmem_check(&arena);
    for (size_t i = SEGMENTS - 1; i > 0; i--) {
        size_t other = random_below(&random_source, i + 1);
        uintptr_t start = starts[i];

        starts[i] = starts[other];
        starts[other] = start;
    }
    for (size_t i = 0; i < SEGMENTS; i++)
        CHECK(vmem_segment_free(&arena, starts[i], 2, VMEM_CLEAN) && !vmem_segment_free(&arena, starts[i], 2, VMEM_CLEAN));
    vmem_check(&arena);
    CHECK_LE(arena.lg_buckets, 6); // and it has shrunk
    CHECK_EQ(vmem_segment_alloc(&arena, SEGMENTS * 2).start, 1);
}

int main(void) {
    for (size_t quanta = 200; quanta <= 4000; quanta *= 4) {
        long_run(VMEM_INSTANTFIT, quanta);
        long_run(VMEM_BESTFIT, quanta);
    }
    many_segments();
    return 0;
}
