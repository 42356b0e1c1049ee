// Tests vmem/vmem.h on small arenas: every sequence of alloc and free up to a depth, against a model searched by brute force.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include "model.h"

enum { BASE = 0x5000, LG_QUANTUM = 3 };

static struct choices choices;

static void attempt_wrong_frees(struct model *model) {
    for (size_t first = 0; first < model->quanta; first++)
        for (size_t quanta = 1; first + quanta <= model->quanta; quanta++)
            model_free_wrongly(model, first, quanta);
}

// One step: allocate some number of quanta, or free one of the live segments as one of `kinds`.
static void step(struct model *model, unsigned kinds) {
    unsigned sizes = (unsigned)model->quanta, way = choose(&choices, sizes + (unsigned)model->lives * kinds);

    if (way < sizes)
        model_alloc(model, way + 1);
    else
        model_free(model, (way - sizes) / kinds, (way - sizes) % kinds ? VMEM_DIRTY : VMEM_CLEAN);
}

static void every_sequence(enum vmem_policy policy, size_t quanta, int depth, unsigned kinds) {
    static struct model model;
    struct vmem arena;
    size_t sequences = 0;

    vmem_init(&arena, "small", LG_QUANTUM, policy, RANK_PAGES);
    CHECK(vmem_span_add(&arena, BASE, quanta << LG_QUANTUM));
    model = (struct model){ .arena = &arena, .base = BASE, .lg_quantum = LG_QUANTUM, .quanta = quanta };
    do {
        for (int i = 0; i < depth; i++)
            step(&model, kinds);
        attempt_wrong_frees(&model);
        vmem_check(&arena);
        model_empty(&model);
        sequences++;
    } while (choices_next(&choices));
    say("%s, %zu quanta, %u kinds: %zu sequences of %d steps",
        policy == VMEM_BESTFIT ? "best fit" : "instant fit", quanta, kinds, sequences, depth);
}

// A span in several pieces: segments never reach from one into another.
static void separate_spans(void) {
    struct vmem arena;

    vmem_init(&arena, "spans", 0, VMEM_INSTANTFIT, RANK_PAGES);
    CHECK(vmem_segment_alloc(&arena, 1).start == 0);
    CHECK(vmem_span_add(&arena, 100, 10) && vmem_span_add(&arena, 110, 10) && vmem_span_add(&arena, 200, 5));
    CHECK(vmem_segment_alloc(&arena, 11).start == 0);
    uintptr_t first = vmem_segment_alloc(&arena, 10).start, second = vmem_segment_alloc(&arena, 10).start;
    CHECK((first == 100 && second == 110) || (first == 110 && second == 100));
    CHECK(vmem_segment_alloc(&arena, 6).start == 0);
    CHECK_EQ(vmem_segment_alloc(&arena, 5).start, 200);
    CHECK(vmem_segment_alloc(&arena, 1).start == 0);
    CHECK(vmem_segment_free(&arena, first, 10, VMEM_CLEAN) && vmem_segment_free(&arena, second, 10, VMEM_CLEAN));
    vmem_check(&arena);
    CHECK(vmem_segment_alloc(&arena, 11).start == 0);
}

// An arena of three large segments, [1, 1 + L), [1 + L, 1 + 2 L), [1 + 2 L, 1 + 3 L), all allocated.
enum { L = VMEM_APART + 50 };

static void three_large(struct vmem *arena) {
    vmem_init(arena, "large", 0, VMEM_INSTANTFIT, RANK_PAGES);
    CHECK(vmem_span_add(arena, 1, 3 * L));
    for (uintptr_t i = 0; i < 3; i++)
        CHECK_EQ(vmem_segment_alloc(arena, L).start, 1 + i * L);
}

// Large free segments of different kinds may lie side by side; each operation after which one of them is small, or has
// become of the other's kind, must join them.
static void large_neighbours(void) {
    struct vmem_constraint at_first = { .least = 1, .most = 1 + 100 };
    struct vmem arena;
    struct vmem_piece piece;

    three_large(&arena); // the clean one is cut by an allocation
    CHECK(vmem_segment_free(&arena, 1, L, VMEM_CLEAN) && vmem_segment_free(&arena, 1 + L, L, VMEM_DIRTY));
    CHECK_EQ(vmem_segment_xalloc(&arena, 100, &at_first, VMEM_INSTANTFIT, 0).start, 1);
    vmem_check(&arena);

    three_large(&arena); // by the growth of what lies before it
    CHECK(vmem_segment_free(&arena, 1 + L, L, VMEM_CLEAN) && vmem_segment_free(&arena, 1 + 2 * L, L, VMEM_DIRTY));
    piece = vmem_extend(&arena, 1, L, L + 100);
    CHECK(piece.start == 1 + L && piece.kind == VMEM_CLEAN && piece.dirty == 0);
    vmem_check(&arena);

    three_large(&arena); // which may need both
    CHECK(vmem_segment_free(&arena, 1 + L, L, VMEM_CLEAN) && vmem_segment_free(&arena, 1 + 2 * L, L, VMEM_DIRTY));
    CHECK_EQ(vmem_extend(&arena, 1, L, 3 * L + 1).start, 0);
    piece = vmem_extend(&arena, 1, L, 2 * L + 10);
    CHECK(piece.start == 1 + L && piece.kind == VMEM_DIRTY && piece.dirty == 10);
    vmem_check(&arena);
    piece = vmem_extend(&arena, 1, 2 * L + 10, 3 * L);
    CHECK(piece.start == 1 + 2 * L + 10 && piece.kind == VMEM_DIRTY && piece.dirty == L - 10);
    vmem_check(&arena);
    CHECK(vmem_segment_free(&arena, 1, 3 * L, VMEM_CLEAN));

    three_large(&arena); // it becomes dirty by a small neighbour on its other side
    CHECK(vmem_shrink(&arena, 1, L, L - 10));
    CHECK(vmem_segment_free(&arena, 1 + 2 * L, L, VMEM_DIRTY) && vmem_segment_free(&arena, 1 + L, L, VMEM_CLEAN));
    vmem_check(&arena);

    three_large(&arena); // it is soiled
    CHECK(vmem_segment_free(&arena, 1 + L, L, VMEM_CLEAN) && vmem_segment_free(&arena, 1 + 2 * L, L, VMEM_DIRTY));
    vmem_soil_next(&arena, 1, L);
    vmem_check(&arena);
}

static void cut(void) {
    struct vmem_constraint at_first = { .least = 1, .most = 1 + L };
    struct vmem arena;

    three_large(&arena);
    CHECK(!vmem_cut(&arena, 2, 1) && !vmem_cut(&arena, 1, L));
    CHECK(vmem_cut(&arena, 1, 10) && vmem_cut(&arena, 11, L / 2));
    vmem_check(&arena);
    CHECK(vmem_segment_size(&arena, 1) == 10 && vmem_segment_size(&arena, 11) == L / 2);
    CHECK_EQ(vmem_segment_size(&arena, 11 + L / 2), L - 10 - L / 2);
    CHECK(vmem_segment_free(&arena, 11, L / 2, VMEM_CLEAN) && vmem_segment_free(&arena, 1, 10, VMEM_CLEAN));
    CHECK(vmem_segment_free(&arena, 11 + L / 2, L - 10 - L / 2, VMEM_CLEAN));
    vmem_check(&arena);
    CHECK_EQ(vmem_segment_xalloc(&arena, L, &at_first, VMEM_INSTANTFIT, 0).start, 1);
}

static void sizes_at_the_edge(void) {
    struct vmem arena;

    vmem_init(&arena, "edge", 12, VMEM_BESTFIT, RANK_PAGES);
    CHECK(vmem_span_add(&arena, (uintptr_t)1 << 40, (size_t)1 << 46));
    CHECK(vmem_segment_alloc(&arena, 0).start == 0);
    CHECK(vmem_segment_alloc(&arena, SIZE_MAX).start == 0);
    CHECK(vmem_segment_alloc(&arena, (size_t)1 << 63).start == 0);
    CHECK(vmem_segment_alloc(&arena, ((size_t)1 << 46) + 1).start == 0);
    uintptr_t all = vmem_segment_alloc(&arena, (size_t)1 << 46).start;
    CHECK(all == (uintptr_t)1 << 40);
    CHECK(!vmem_segment_free(&arena, all, SIZE_MAX, VMEM_CLEAN) && !vmem_segment_free(&arena, all, 0, VMEM_CLEAN));
    CHECK(vmem_segment_free(&arena, all, (size_t)1 << 46, VMEM_CLEAN));
    uintptr_t one = vmem_segment_alloc(&arena, 1).start; // rounded up to a quantum
    CHECK(!vmem_segment_free(&arena, one, 4097, VMEM_CLEAN) && vmem_segment_free(&arena, one, 4096, VMEM_CLEAN));
    CHECK(!vmem_segment_free(&arena, one, 4096, VMEM_CLEAN));
    vmem_check(&arena);
}

// As much as there is, dirty segments first; what is free in small pieces is used in small pieces.
static void times(void) {
    enum { Q = 4096 };
    struct vmem arena;
    uintptr_t start = (uintptr_t)1 << 40, at[8];
    unsigned lg_times = 3;

    vmem_init(&arena, "times", 12, VMEM_BESTFIT, RANK_PAGES);
    CHECK(vmem_span_add(&arena, start, 16 * Q));
    CHECK(vmem_segment_alloc_times(&arena, Q, &lg_times).start == start && lg_times == 3);
    for (int i = 0; i < 8; i++)
        CHECK((at[i] = vmem_segment_alloc(&arena, Q).start) == start + (uintptr_t)(8 + i) * Q);
    CHECK(vmem_segment_free(&arena, start, 8 * Q, VMEM_CLEAN));
    CHECK(vmem_segment_free(&arena, at[1], Q, VMEM_DIRTY) && vmem_segment_free(&arena, at[2], Q, VMEM_DIRTY));
    CHECK(vmem_segment_alloc_times(&arena, Q, &lg_times).start == at[1] && lg_times == 1); // dirty, if smaller
    lg_times = 2;
    CHECK(vmem_segment_alloc_times(&arena, Q, &lg_times).start == start && lg_times == 2);
    lg_times = 3;
    CHECK(vmem_segment_alloc_times(&arena, Q, &lg_times).start == start + 4 * Q && lg_times == 2);
    lg_times = 3;
    CHECK(vmem_segment_alloc_times(&arena, Q, &lg_times).start == 0 && lg_times == 0);
    vmem_check(&arena);
}

int main(void) {
    for (int policy = VMEM_INSTANTFIT; policy <= VMEM_BESTFIT; policy++) {
        every_sequence((enum vmem_policy)policy, 8, 5, 1);
        every_sequence((enum vmem_policy)policy, 6, 6, 1);
        every_sequence((enum vmem_policy)policy, 4, 6, 2);
        every_sequence((enum vmem_policy)policy, 3, 8, 2);
    }
    separate_spans();
    large_neighbours();
    cut();
    sizes_at_the_edge();
    times();
    return 0;
}
