// Tests that an aligned request does not look at all the holes that are too small for it: it looks at as many in ten times more of them, and
// imports; where nothing can be imported it finds the one place that there is.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include "unit.h"

enum { LG_QUANTUM = 12, ALIGN = 16, SIZE = 5, HOLES = 2000, MORE = 10, REQUESTS = 200, LOOKS_MOST = 200 }; // sizes in quanta

static const uintptr_t first = (uintptr_t)1 << 40;
static size_t imports;
static bool refuse;

static uintptr_t count_import(void *ignored, size_t size, int flags) {
    static uintptr_t next = (uintptr_t)2 << 40;

    (void)ignored, (void)flags;
    if (refuse)
        return 0;
    imports++;
    next += 2 * size;
    return next - 2 * size;
}

static uintptr_t take(struct vmem *arena, size_t quanta) {
    uintptr_t start = vmem_segment_alloc(arena, quanta << LG_QUANTUM).start;

    CHECK(start != 0);
    return start;
}

// [ the place ] and then, in each stretch of ALIGN quanta: [ one in use | a hole as large as the request, at no multiple | in use ].
// The place, if there is to be one, is freed first and so the last on its list.
static void make(struct vmem *arena, size_t holes, enum vmem_kind kind, bool with_place) {
    size_t size = SIZE << LG_QUANTUM;

    vmem_init(arena, "aligned", LG_QUANTUM, VMEM_BESTFIT, RANK_PAGES);
    CHECK(vmem_span_add(arena, first, (holes + 1) * ALIGN << LG_QUANTUM));
    CHECK_EQ(take(arena, SIZE), first);
    take(arena, ALIGN - SIZE);
    for (size_t i = 0; i < holes; i++) {
        take(arena, 1);
        take(arena, SIZE);
        take(arena, ALIGN - SIZE - 1);
    }
    if (with_place)
        CHECK(vmem_segment_free(arena, first, size, kind));
    for (size_t i = 1; i <= holes; i++)
        CHECK(vmem_segment_free(arena, first + ((i * ALIGN + 1) << LG_QUANTUM), size, kind));
    imports = 0;
    refuse = false;
}

static void may_import(struct vmem *arena) {
    vmem_import_from(arena, NULL, count_import, NULL, (size_t)1 << 21, (size_t)1 << 21);
}

static uintptr_t aligned(struct vmem *arena) {
    return vmem_segment_alloc_aligned(arena, SIZE << LG_QUANTUM, ALIGN << LG_QUANTUM).start;
}

// The most that one request looked at.
static size_t looks(size_t holes, enum vmem_kind kind) {
    struct vmem arena;
    size_t most = 0;

    make(&arena, holes, kind, false);
    may_import(&arena);
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t before = arena.searches;
        uintptr_t start = aligned(&arena);

        CHECK(start != 0 && start % (ALIGN << LG_QUANTUM) == 0);
        if (arena.searches - before > most)
            most = arena.searches - before;
    }
    CHECK(imports > 0 && imports <= REQUESTS * ALIGN * ((size_t)1 << LG_QUANTUM) / ((size_t)1 << 21) + 1); // a span serves many
    vmem_check(&arena);
    vmem_fini(&arena);
    return most;
}

static void bounded(enum vmem_kind kind) {
    size_t few = looks(HOLES, kind), many = looks(MORE * HOLES, kind);

    CHECK_SAY(many <= few && few <= LOOKS_MOST, "%zu looks in %d holes, %zu in %d", few, HOLES, many, MORE * HOLES);
}

// Behind all holes of the list there is a place: what a program's own arena has it gives, before it imports, as the paper has it.
static void exact(enum vmem_kind kind, enum vmem_policy policy) {
    struct vmem_constraint there = { .align = ALIGN << LG_QUANTUM };
    struct vmem arena;

    make(&arena, HOLES, kind, true);
    may_import(&arena);
    CHECK_EQ(vmem_segment_xalloc(&arena, SIZE << LG_QUANTUM, &there, policy, 0).start, first);
    CHECK_EQ(imports, 0);
    vmem_fini(&arena);
}

static void found_where_imports_fail(enum vmem_kind kind, bool importing) {
    struct vmem arena;

    make(&arena, HOLES, kind, true);
    if (importing)
        may_import(&arena);
    refuse = true;
    CHECK_EQ(aligned(&arena), first);
    CHECK_EQ(aligned(&arena), 0);
    vmem_check(&arena);
    vmem_fini(&arena);
}

// A program's arena has one large segment besides the holes: it is taken without a search, whatever the policy.
static void ample_is_quick(enum vmem_policy policy) {
    struct vmem_constraint there = { .align = ALIGN << LG_QUANTUM };
    struct vmem arena;

    make(&arena, HOLES, VMEM_CLEAN, false);
    CHECK(vmem_span_add(&arena, first << 1, 2 * ALIGN << LG_QUANTUM));
    uint64_t before = arena.searches;
    CHECK_EQ(vmem_segment_xalloc(&arena, SIZE << LG_QUANTUM, &there, policy, 0).start, first << 1);
    CHECK_LE(arena.searches - before, LOOKS_MOST);
    vmem_fini(&arena);
}

int main(void) {
    for (int kind = VMEM_CLEAN; kind <= VMEM_DIRTY; kind++) {
        bounded((enum vmem_kind)kind);
        for (int policy = VMEM_INSTANTFIT; policy <= VMEM_NEXTFIT; policy++)
            exact((enum vmem_kind)kind, (enum vmem_policy)policy);
        found_where_imports_fail((enum vmem_kind)kind, true);
        found_where_imports_fail((enum vmem_kind)kind, false);
    }
    for (int policy = VMEM_INSTANTFIT; policy <= VMEM_FIRSTFIT; policy++)
        ample_is_quick((enum vmem_policy)policy);
    return 0;
}
