// A model of a vmem arena that is searched quantum by quantum, and operations done on arena and model alike.
//
// It knows for each quantum of one span whether it is allocated, free and clean, or free and used before. From that follows
// what vmem.h promises: an allocation succeeds exactly when a gap is large enough (so free neighbours are always joined, but
// for large ones of different kinds), never overlaps, takes used quanta first, and calls nothing clean that was used.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_VMEM_MODEL_H
#define VMAG_TESTS_VMEM_MODEL_H

#include "unit.h"
#include "vmem/vmem.h"

enum { MODEL_MOST = 4096 };
enum quantum_state { QUANTUM_CLEAN, QUANTUM_DIRTY, QUANTUM_LIVE };

struct live {
    size_t first, quanta;
};

struct model {
    struct vmem *arena;
    uintptr_t base;
    unsigned lg_quantum;
    size_t quanta;
    uint8_t state[MODEL_MOST];
    struct live live[MODEL_MOST];
    size_t lives;
};

static inline uintptr_t model_address(const struct model *model, size_t quantum) {
    return model->base + (quantum << model->lg_quantum);
}

// Not a number of the model when the address is not one of its span.
static inline size_t model_quantum(const struct model *model, uintptr_t address) {
    return (address - model->base) >> model->lg_quantum;
}

static inline void model_set(struct model *model, size_t first, size_t quanta, enum quantum_state state) {
    memset(model->state + first, state, quanta);
}

static inline bool model_all_are(const struct model *model, size_t first, size_t quanta, enum quantum_state state) {
    for (size_t i = first; i < first + quanta; i++)
        if (model->state[i] != state)
            return false;
    return true;
}

// The gap that begins at or behind `*first`: its length, 0 when there is none; `*used`: some quantum of it was used before.
static inline size_t model_gap(const struct model *model, size_t *first, bool *used) {
    size_t end;

    while (*first < model->quanta && model->state[*first] == QUANTUM_LIVE)
        ++*first;
    *used = false;
    for (end = *first; end < model->quanta && model->state[end] != QUANTUM_LIVE; end++)
        *used |= model->state[end] == QUANTUM_DIRTY;
    return end - *first;
}

// Whether a gap of that length is one segment, or at least has one as large as `quanta`: large segments of different kinds
// may lie side by side.
static inline bool model_is_joined(size_t gap, size_t quanta) {
    return gap < 2 * VMEM_APART || quanta <= VMEM_APART;
}

enum fit { FIT_NONE, FIT_PERHAPS, FIT_SURELY };

// Whether some gap holds that many quanta; `used`: only gaps of which something was used before.
static inline enum fit model_fit(const struct model *model, size_t quanta, bool used) {
    enum fit best = FIT_NONE;
    bool gap_used;

    for (size_t first = 0, gap; (gap = model_gap(model, &first, &gap_used)) > 0; first += gap)
        if (gap >= quanta && (gap_used || !used)) {
            if (model_is_joined(gap, quanta) && (!used || gap < 2 * VMEM_APART))
                return FIT_SURELY;
            best = FIT_PERHAPS;
        }
    return best;
}

static inline void model_take(struct model *model, size_t first, size_t quanta) {
    for (size_t i = first; i < first + quanta; i++)
        CHECK(model->state[i] != QUANTUM_LIVE); // no overlap
    model_set(model, first, quanta, QUANTUM_LIVE);
    model->live[model->lives++] = (struct live){ first, quanta };
}

static inline void model_check_kind(const struct model *model, size_t first, size_t quanta, enum vmem_kind kind) {
    if (kind == VMEM_CLEAN)
        CHECK(model_all_are(model, first, quanta, QUANTUM_CLEAN));
}

// True: allocated.
static inline bool model_alloc(struct model *model, size_t quanta) {
    struct vmem_piece piece = vmem_segment_alloc(model->arena, quanta << model->lg_quantum);
    size_t first = model_quantum(model, piece.start);

    CHECK_NE(model_fit(model, quanta, false), piece.start != 0 ? FIT_NONE : FIT_SURELY);
    if (piece.start == 0)
        return false;
    CHECK(piece.start == model_address(model, first) && first + quanta <= model->quanta);
    model_check_kind(model, first, quanta, piece.kind);
    CHECK_LE(piece.dirty, piece.kind == VMEM_CLEAN ? 0 : quanta << model->lg_quantum);
    if (model_fit(model, quanta, true) == FIT_SURELY)
        CHECK_EQ(piece.kind, VMEM_DIRTY);
    model_take(model, first, quanta);
    return true;
}

static inline void model_free(struct model *model, size_t number, enum vmem_kind kind) {
    struct live live = model->live[number];

    CHECK(vmem_segment_free(model->arena, model_address(model, live.first), live.quanta << model->lg_quantum, kind));
    model_set(model, live.first, live.quanta, kind == VMEM_DIRTY ? QUANTUM_DIRTY : QUANTUM_CLEAN);
    model->live[number] = model->live[--model->lives];
}

// Whatever is not exactly an allocated segment is refused.
static inline void model_free_wrongly(struct model *model, size_t first, size_t quanta) {
    for (size_t i = 0; i < model->lives; i++)
        if (model->live[i].first == first && model->live[i].quanta == quanta)
            return;
    CHECK(!vmem_segment_free(model->arena, model_address(model, first), quanta << model->lg_quantum, VMEM_DIRTY));
}

// All that was used becomes clean again, as a purge does it, about `most` quanta at a time.
static inline void model_clean(struct model *model, size_t most) {
    struct vmem_piece piece;
    size_t size;

    while ((piece = vmem_take_dirty(model->arena, most << model->lg_quantum, &size)).start != 0) {
        size_t first = model_quantum(model, piece.start), quanta = size >> model->lg_quantum;

        CHECK(quanta > 0 && first + quanta <= model->quanta);
        model_take(model, first, quanta);
        model_free(model, model->lives - 1, VMEM_CLEAN);
    }
    for (size_t i = 0; i < model->quanta; i++)
        CHECK(model->state[i] != QUANTUM_DIRTY);
}

// The arena is as it was at first: one free segment.
static inline void model_empty(struct model *model) {
    while (model->lives > 0)
        model_free(model, model->lives - 1, VMEM_CLEAN);
    model_clean(model, model->quanta);
    vmem_check(model->arena);
    CHECK(model_alloc(model, model->quanta));
    model_free(model, 0, VMEM_CLEAN);
}

#endif
