// Tests how a vmem arena imports and releases: whole multiples of its unit, counted; whole clean spans go back, and only they.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include "unit.h"

enum { UNIT = 64, QUANTUM = 4, SPANS_MOST = 1000 };

// A source that only counts. Each span lies apart from the one before it.
static struct source {
    struct {
        uintptr_t start;
        size_t size;
    } spans[SPANS_MOST];
    size_t imported, live, refuse_from;
    uintptr_t next;
    size_t offset; // of every span from a multiple of the unit
} source;

static uintptr_t count_import(void *ignored, size_t size, int flags) {
    (void)ignored;
    (void)flags;
    CHECK(size > 0 && size % UNIT == 0);
    if (source.imported >= source.refuse_from)
        return 0;
    CHECK(source.imported < SPANS_MOST);
    uintptr_t start = source.next + source.offset;
    source.next += size + 3 * UNIT;
    source.spans[source.imported].start = start;
    source.spans[source.imported].size = size;
    source.imported++;
    source.live++;
    return start;
}

static void count_release(void *ignored, uintptr_t start, size_t size) {
    (void)ignored;
    for (size_t i = 0; i < source.imported; i++)
        if (source.spans[i].start == start) {
            CHECK_EQ(source.spans[i].size, size); // whole, and once
            source.spans[i].start = 0;
            source.live--;
            return;
        }
    CHECK(!"released what was not imported");
}

static void arena_make(struct vmem *arena) {
    memset(&source, 0, sizeof source);
    source.refuse_from = SPANS_MOST;
    source.next = 1 << 20;
    vmem_init(arena, "importer", 2, VMEM_BESTFIT, RANK_PAGES);
    vmem_import_from(arena, NULL, count_import, count_release, UNIT, 1);
}

static void whole_clean_spans_go_back(void) {
    struct vmem arena;

    arena_make(&arena);
    uintptr_t a = vmem_segment_alloc(&arena, 20).start, b = vmem_segment_alloc(&arena, 44).start;
    CHECK_EQ(source.imported, 1);
    uintptr_t c = vmem_segment_alloc(&arena, UNIT + 1).start;
    CHECK_EQ(source.imported, 2);
    CHECK_EQ(source.spans[1].size, 2 * UNIT);
    CHECK(vmem_segment_free(&arena, a, 20, VMEM_CLEAN));
    CHECK_EQ(source.live, 2); // b is still there
    CHECK(vmem_segment_free(&arena, b, 44, VMEM_CLEAN));
    CHECK_EQ(source.live, 1);
    CHECK(vmem_segment_free(&arena, c, UNIT + 1, VMEM_CLEAN));
    CHECK_EQ(source.live, 0);
    CHECK_EQ(arena.total_bytes, 0);
    vmem_check(&arena);
}

static void dirty_spans_stay_until_cleaned(void) {
    struct vmem arena;
    size_t size;

    arena_make(&arena);
    uintptr_t a = vmem_segment_alloc(&arena, 24).start, b = vmem_segment_alloc(&arena, 40).start;
    CHECK(vmem_segment_free(&arena, a, 24, VMEM_DIRTY) && vmem_segment_free(&arena, b, 40, VMEM_CLEAN));
    CHECK_EQ(source.live, 1);
    CHECK(vmem_segment_alloc(&arena, 64).start == a); // nothing new is imported while there is room
    CHECK_EQ(source.imported, 1);
    CHECK(vmem_segment_free(&arena, a, 64, VMEM_DIRTY));
    for (struct vmem_piece piece; (piece = vmem_take_dirty(&arena, SIZE_MAX / 2, &size)).start != 0;)
        CHECK(vmem_segment_free(&arena, piece.start, size, VMEM_CLEAN));
    CHECK_EQ(source.live, 0);
    vmem_check(&arena);
}

static void added_spans_stay(void) {
    struct vmem arena;

    arena_make(&arena);
    CHECK(vmem_span_add(&arena, 4096, UNIT));
    uintptr_t a = vmem_segment_alloc(&arena, UNIT).start;
    CHECK_EQ(a, 4096);
    CHECK(vmem_segment_free(&arena, a, UNIT, VMEM_CLEAN));
    CHECK_EQ(arena.total_bytes, UNIT);
    CHECK_EQ(source.imported, 0);
}

// Where nobody takes a span back it stays, and serves again: the source is not asked for more.
static void unreturnable_spans_stay(void) {
    struct vmem arena;

    arena_make(&arena);
    vmem_import_from(&arena, NULL, count_import, NULL, UNIT, 1);
    for (int i = 0; i < 100; i++) {
        uintptr_t a = vmem_segment_alloc(&arena, 20 + (size_t)i % 3 * QUANTUM).start;

        CHECK(a == source.spans[0].start);
        CHECK(vmem_segment_free(&arena, a, 20 + (size_t)i % 3 * QUANTUM, VMEM_CLEAN));
    }
    vmem_return_spans(&arena);
    CHECK_EQ(source.imported, 1);
    CHECK_EQ(arena.total_bytes, UNIT);
    vmem_check(&arena);
    vmem_fini(&arena);
}

static void a_refusing_source(void) {
    struct vmem arena;

    arena_make(&arena);
    source.refuse_from = 1;
    uintptr_t a = vmem_segment_alloc(&arena, UNIT).start;
    CHECK(a != 0);
    CHECK(vmem_segment_alloc(&arena, QUANTUM).start == 0);
    CHECK(vmem_segment_free(&arena, a, UNIT, VMEM_CLEAN));
    CHECK_EQ(source.live, 0);
    CHECK(vmem_segment_alloc(&arena, SIZE_MAX - 8).start == 0);
    CHECK(vmem_segment_alloc(&arena, SIZE_MAX / 2).start == 0);
    vmem_check(&arena);
}

// Another thread adds a span while the source is asked, and has nothing.
static uintptr_t refuse_while_a_span_is_added(void *arena, size_t size, int flags) {
    (void)flags;
    CHECK(size % UNIT == 0);
    CHECK(vmem_span_add(arena, 4096, UNIT));
    return 0;
}

static void what_was_added_meanwhile_is_found(void) {
    static const enum vmem_policy policies[] = {VMEM_BESTFIT, VMEM_FIRSTFIT, VMEM_NEXTFIT, VMEM_INSTANTFIT};

    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct vmem arena;

        arena_make(&arena);
        vmem_import_from(&arena, &arena, refuse_while_a_span_is_added, NULL, UNIT, 1);
        CHECK_EQ(vmem_segment_xalloc(&arena, UNIT, NULL, policies[i], 0).start, 4096);
        vmem_check(&arena);
    }
}

// One import must do, wherever the source's span lies.
static void one_import_for(size_t offset, size_t size, struct vmem_constraint constraint) {
    struct vmem arena;

    arena_make(&arena);
    source.offset = offset;
    source.refuse_from = 5; // more than one is wrong already; a loop without end would not tell
    uintptr_t start = vmem_segment_xalloc(&arena, size, &constraint, VMEM_BESTFIT, 0).start;
    CHECK_SAY(start != 0 && source.imported == 1,
              "size %zu align %zu phase %zu from spans at %zu: got %zu by %zu imports, one would do", size, constraint.align,
              constraint.phase, offset, (size_t)start, source.imported);
    if (constraint.align != 0)
        CHECK_EQ((start - constraint.phase) % constraint.align, 0);
    CHECK(vmem_segment_free(&arena, start, size, VMEM_CLEAN));
    CHECK_EQ(source.live, 0);
    vmem_check(&arena);
}

static void constrained_imports(void) {
    for (size_t size = QUANTUM; size <= 4 * UNIT; size += QUANTUM)
        for (size_t align = QUANTUM; align <= 8 * UNIT; align *= 2)
            for (size_t phase = 0; phase < align && phase < 2 * UNIT; phase += 3 * QUANTUM)
                one_import_for(0, size, (struct vmem_constraint){ .align = align, .phase = phase });
}

// An alignment below the unit must hold as well when the source's spans are not aligned to it.
static void constrained_imports_from_odd_places(void) {
    for (size_t offset = 0; offset < UNIT; offset += QUANTUM)
        for (size_t align = QUANTUM; align <= 4 * UNIT; align *= 2)
            one_import_for(offset, UNIT, (struct vmem_constraint){ .align = align });
}

// While a span is imported, somebody frees enough: the span goes back at once.
static struct vmem *being_imported;

static uintptr_t free_and_import(void *ignored, size_t size, int flags) {
    CHECK(vmem_segment_free(being_imported, 4096, UNIT / 2, VMEM_CLEAN));
    return count_import(ignored, size, flags);
}

static void superfluous_spans_go_back(void) {
    struct vmem arena;

    arena_make(&arena);
    CHECK(vmem_span_add(&arena, 4096, UNIT / 2));
    CHECK_EQ(vmem_segment_alloc(&arena, UNIT / 2).start, 4096);
    being_imported = &arena;
    arena.import = free_and_import;
    CHECK_EQ(vmem_segment_alloc(&arena, UNIT / 2).start, 4096);
    CHECK(source.imported == 1 && source.live == 0);
    vmem_check(&arena);
    vmem_fini(&arena);
}

// Limits on the place cannot be met by importing (2001, §4.3.3).
static void limits_do_not_import(void) {
    struct vmem arena;
    struct vmem_constraint below = { .most = 1 << 12 }, above = { .least = 1 << 12 };

    arena_make(&arena);
    CHECK(vmem_segment_xalloc(&arena, QUANTUM, &below, VMEM_BESTFIT, 0).start == 0);
    CHECK(vmem_segment_xalloc(&arena, QUANTUM, &above, VMEM_BESTFIT, 0).start == 0);
    CHECK_EQ(source.imported, 0);
}

static void random_run(void) {
    enum { LIVES = 60 };
    struct random random = { 11 };
    uintptr_t starts[LIVES] = { 0 };
    size_t sizes[LIVES];
    struct vmem arena;

    arena_make(&arena);
    for (int step = 0; step < 20000 && source.imported < SPANS_MOST - 1; step++) {
        size_t i = random_below(&random, LIVES);

        if (starts[i] != 0)
            CHECK(vmem_segment_free(&arena, starts[i], sizes[i], VMEM_CLEAN));
        sizes[i] = 1 + random_below(&random, 40);
        starts[i] = vmem_segment_alloc(&arena, sizes[i]).start;
        CHECK(starts[i] != 0);
        vmem_check(&arena);
    }
    for (size_t i = 0; i < LIVES; i++)
        if (starts[i] != 0)
            CHECK(vmem_segment_free(&arena, starts[i], sizes[i], VMEM_CLEAN));
    CHECK_EQ(source.live, 0);
}

// A large place of which a part was purged since it was freed is one place still, whichever part it was; only what is asked for is taken of it.
static void purged_in_part(size_t purged_at, size_t purged, size_t wanted) {
    enum { LARGE = 4 * VMEM_APART * QUANTUM };
    struct vmem arena;

    arena_make(&arena);
    uintptr_t low = vmem_segment_alloc(&arena, QUANTUM).start, start = vmem_segment_alloc(&arena, LARGE).start;
    uintptr_t high = vmem_segment_alloc(&arena, QUANTUM).start;
    size_t imported = source.imported;
    CHECK(vmem_segment_free(&arena, start, LARGE, VMEM_DIRTY));
    struct vmem_constraint there = { .least = start + purged_at, .most = start + purged_at + purged };
    CHECK_EQ(vmem_segment_xalloc(&arena, purged, &there, VMEM_BESTFIT, 0).start, start + purged_at);
    CHECK(vmem_segment_free(&arena, start + purged_at, purged, VMEM_CLEAN));
    CHECK(arena.bytes[VMEM_CLEAN] >= purged);

    struct vmem_piece piece = vmem_segment_alloc(&arena, wanted);
    CHECK(piece.start >= start && piece.start + wanted <= start + LARGE);
    CHECK(piece.kind == VMEM_DIRTY && piece.dirty > 0 && piece.dirty <= wanted);
    CHECK_EQ(source.imported, imported);
    vmem_check(&arena);
    CHECK(vmem_segment_alloc(&arena, LARGE).start != 0); // now it is not
    CHECK_EQ(source.imported, imported + 1);
    CHECK(vmem_segment_free(&arena, piece.start, wanted, VMEM_DIRTY));
    CHECK(vmem_segment_free(&arena, low, QUANTUM, VMEM_CLEAN) && vmem_segment_free(&arena, high, QUANTUM, VMEM_CLEAN));
    vmem_check(&arena);
}

static void places_purged_in_part(void) {
    enum { A = VMEM_APART * QUANTUM };

    purged_in_part(0, A, 4 * A);
    purged_in_part(3 * A, A, 4 * A);
    purged_in_part(A, A, 4 * A);
    purged_in_part(2 * A, 2 * A, 3 * A + QUANTUM);
    purged_in_part(0, 2 * A, 3 * A + QUANTUM);
    purged_in_part(A, 2 * A, 3 * A - QUANTUM);
}

int main(void) {
    whole_clean_spans_go_back();
    places_purged_in_part();
    dirty_spans_stay_until_cleaned();
    added_spans_stay();
    unreturnable_spans_stay();
    a_refusing_source();
    what_was_added_meanwhile_is_found();
    superfluous_spans_go_back();
    limits_do_not_import();
    random_run();
    constrained_imports();
    constrained_imports_from_odd_places();
    return 0;
}
