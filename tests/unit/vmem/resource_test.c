// Tests vmem/resource.h against a naive model in long random runs: every policy, every constraint, spans added and imported.
//
// The model keeps one byte an integer and a list of spans, and searches them integer by integer. From it follows: an
// allocation succeeds exactly when there is a place (or an import that must bring one), it lies where constraint and policy
// say, and a span goes back to its source exactly when its last segment was freed.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/resource.h"

#include "unit.h"

enum { UNIVERSE = 1024, SPANS_MOST = UNIVERSE, LIVES_MOST = UNIVERSE, STEPS = 600000, LOOK_EVERY = 512, NEXT_FIT_NEAR = 80 };

struct span {
    size_t start, end;
    bool imported;
};

static struct {
    struct vmag_vmem *arena;
    size_t quantum;
    bool used[UNIVERSE]; // by unit; the integer is (unit + 1) × quantum
    struct span spans[SPANS_MOST]; // by address, or in the order in which they were imported
    size_t span_count;
    struct {
        size_t start, size; // in units
    } live[LIVES_MOST];
    size_t lives;
    size_t rotor; // unit, in or at the end of rotor_span
    size_t rotor_span;
    bool rotor_used;
    // The source, as units that are out.
    bool out[UNIVERSE];
    bool refuse;
} model;

static struct random random_source = {2026};

static size_t below(size_t limit) {
    return random_below(&random_source, limit);
}

static uintptr_t integer(size_t unit) {
    return (unit + 1) * model.quantum;
}

static size_t unit_of(uintptr_t address) {
    return address / model.quantum - 1;
}

static void span_append(size_t start, size_t size, bool imported) {
    CHECK(model.span_count < SPANS_MOST);
    model.spans[model.span_count++] = (struct span){start, start + size, imported};
}

// A source that gives the lowest free range, and is told what came of it.
static size_t source_place(size_t size) {
    size_t run = 0;

    for (size_t unit = 0; unit < UNIVERSE; unit++) {
        run = model.out[unit] ? 0 : run + 1;
        if (run == size)
            return unit + 1 - size;
    }
    return UNIVERSE;
}

static void *source_import(struct vmag_vmem *source, size_t size, int flags) {
    size_t units = size / model.quantum, start = source_place(units);

    (void)source;
    CHECK_EQ(flags, VMAG_VM_NOSLEEP);
    CHECK_EQ(size % model.quantum, 0);
    if (model.refuse || start == UNIVERSE)
        return NULL;
    memset(model.out + start, true, units);
    span_append(start, units, true);
    return (void *)integer(start);
}

static void source_release(struct vmag_vmem *source, void *address, size_t size) {
    size_t start = unit_of((uintptr_t)address), units = size / model.quantum, i = 0;

    (void)source;
    while (i < model.span_count && model.spans[i].start != start)
        i++;
    CHECK(i < model.span_count && model.spans[i].imported && model.spans[i].end == start + units);
    for (size_t unit = start; unit < start + units; unit++)
        CHECK(!model.used[unit]);
    memset(model.out + start, false, units);
    if (model.rotor_used && model.rotor_span == i) { // the rotor goes on to the next span
        model.rotor_used = i + 1 < model.span_count;
        model.rotor = model.rotor_used ? model.spans[i + 1].start : 0;
    } else if (model.rotor_used && model.rotor_span > i)
        model.rotor_span--;
    memmove(model.spans + i, model.spans + i + 1, (--model.span_count - i) * sizeof *model.spans);
}

// The free gap of a span at or behind `*unit`: its length.
static size_t gap_of(const struct span *span, size_t *unit) {
    size_t end;

    while (*unit < span->end && model.used[*unit])
        ++*unit;
    for (end = *unit; end < span->end && !model.used[end]; end++)
        ;
    return end - *unit;
}

static bool satisfies(const struct vmem_constraint *c, size_t unit, size_t units) {
    uintptr_t start = integer(unit), last = start + units * model.quantum - 1;

    if (c->align != 0 && (start - c->phase) % c->align != 0)
        return false;
    if (c->nocross != 0 && start / c->nocross != last / c->nocross)
        return false;
    return start >= c->least && (c->most == 0 || last < c->most);
}

// The first place for the request in [from, to) of a span; UNIVERSE: none.
static size_t place_between(const struct span *span, size_t from, size_t to, size_t units, const struct vmem_constraint *c) {
    size_t run = 0;

    for (size_t unit = from; unit < span->end; unit++) {
        run = model.used[unit] ? 0 : run + 1;
        if (run >= units && unit + 1 - units < to && satisfies(c, unit + 1 - units, units))
            return unit + 1 - units;
    }
    return UNIVERSE;
}

static size_t any_place(size_t units, const struct vmem_constraint *c) {
    size_t place = UNIVERSE;

    for (size_t i = 0; i < model.span_count && place == UNIVERSE; i++)
        place = place_between(&model.spans[i], model.spans[i].start, model.spans[i].end, units, c);
    return place;
}

// From the rotor to its span's end, the spans behind it, those before it, and its span from the start.
static size_t next_place(size_t units, const struct vmem_constraint *c) {
    size_t first = model.rotor_used ? model.rotor_span : 0;
    size_t from = model.rotor_used ? model.rotor : model.spans[0].start;
    size_t place = place_between(&model.spans[first], from, UNIVERSE, units, c);

    for (size_t i = 1; i <= model.span_count && place == UNIVERSE; i++) {
        struct span *span = &model.spans[(first + i) % model.span_count];

        place = place_between(span, span->start, UNIVERSE, units, c);
    }
    return place;
}

// Behind the rotor by address, around the integers: what next fit takes where it would have to walk far.
static size_t nearest_place(size_t units, const struct vmem_constraint *c) {
    size_t place = UNIVERSE;

    for (int behind = 1; behind >= 0 && place == UNIVERSE; behind--)
        for (size_t i = 0; i < model.span_count; i++) {
            size_t start = model.spans[i].start, from = behind && model.rotor > start ? model.rotor : start;
            size_t found = from < model.spans[i].end ? place_between(&model.spans[i], from, UNIVERSE, units, c) : UNIVERSE;

            if (found < place)
                place = found;
        }
    return place;
}

static size_t span_of(size_t unit) {
    for (size_t i = 0; i < model.span_count; i++)
        if (unit >= model.spans[i].start && unit < model.spans[i].end)
            return i;
    CHECK(!"outside all spans");
    return 0;
}

// The gap in which the unit lies.
static size_t gap_around(size_t unit) {
    struct span *span = &model.spans[span_of(unit)];
    size_t start = unit, end = unit;

    while (start > span->start && !model.used[start - 1])
        start--;
    while (end < span->end && !model.used[end])
        end++;
    return end - start;
}

static unsigned list_of(size_t units) {
    unsigned list = 0;

    if (units <= VMEM_EXACT_LISTS)
        return (unsigned)units;
    while (units >> (list + 1) != 0)
        list++;
    return VMEM_EXACT_LISTS + list;
}

// The least gap that holds the request; with `list`: the least list with a gap that surely holds it.
static size_t least_gap(size_t units, bool list) {
    size_t least = SIZE_MAX;
    bool power = (units & (units - 1)) == 0 || units <= VMEM_EXACT_LISTS;

    for (size_t i = 0; i < model.span_count; i++)
        for (size_t unit = model.spans[i].start, gap; (gap = gap_of(&model.spans[i], &unit)) > 0; unit += gap)
            if (list && (list_of(gap) > list_of(units) || (power && list_of(gap) == list_of(units))))
                least = list_of(gap) < least ? list_of(gap) : least;
            else if (!list && gap >= units && gap < least)
                least = gap;
    return least;
}

// What the policy says of an unconstrained allocation, before it is entered into the model.
static void check_policy(size_t unit, size_t units, int flags) {
    size_t gap = gap_around(unit);

    if (flags & VMAG_VM_BESTFIT)
        CHECK_EQ(gap, least_gap(units, false));
    else if (flags & VMAG_VM_FIRSTFIT)
        CHECK_EQ(list_of(gap), list_of(least_gap(units, false)));
    else if ((flags & VMAG_VM_NEXTFIT) == 0 && least_gap(units, true) != SIZE_MAX)
        CHECK_EQ(list_of(gap), least_gap(units, true));
}

static size_t import_units(size_t units, const struct vmem_constraint *c) {
    size_t align = c->align > model.quantum ? c->align : 0, nocross = c->nocross > model.quantum ? c->nocross : 0;

    if (c->least != 0 || c->most != 0)
        return UNIVERSE + 1;
    return units + (c->phase + (align > nocross ? align : nocross)) / model.quantum;
}

static bool import_must_do(size_t units, const struct vmem_constraint *c) {
    return model.arena->import != NULL && !model.refuse && source_place(import_units(units, c)) < UNIVERSE;
}

static struct vmem_constraint any_constraint(size_t units) {
    static const struct vmem_constraint none;
    struct vmem_constraint c = none;
    size_t kinds = below(4) == 0 ? below(16) : 0;

    if (kinds & 1) {
        c.align = model.quantum << below(6);
        c.phase = below(c.align / model.quantum) * model.quantum;
    }
    if (kinds & 2)
        c.nocross = model.quantum << below(8);
    if (c.nocross != 0 && (c.phase & (c.nocross - 1)) + units * model.quantum > c.nocross)
        c.nocross = 0; // it would contradict itself
    if (kinds & 4)
        c.least = 1 + below(UNIVERSE * model.quantum);
    if (kinds & 8)
        c.most = 1 + below(UNIVERSE * model.quantum);
    return c;
}

static bool is_none(const struct vmem_constraint *c) {
    return (c->align | c->phase | c->nocross | c->least | c->most) == 0;
}

static void alloc(void) {
    static const int policies[] = {VMAG_VM_INSTANTFIT, VMAG_VM_BESTFIT, VMAG_VM_FIRSTFIT, VMAG_VM_NEXTFIT};
    size_t units = 1 + below(below(5) == 0 ? 150 : 12);
    size_t size = units * model.quantum - below(model.quantum);
    struct vmem_constraint c = any_constraint(units);
    int flags = VMAG_VM_NOSLEEP | policies[below(4)];
    bool here = any_place(units, &c) != UNIVERSE, imported = !here && import_must_do(units, &c);
    bool is_next = here && flags & VMAG_VM_NEXTFIT;
    size_t next = is_next ? next_place(units, &c) : UNIVERSE, near = is_next ? nearest_place(units, &c) : UNIVERSE;
    bool far = model.lives >= NEXT_FIT_NEAR;
    uintptr_t start = resource_xalloc(model.arena, size, is_none(&c) && below(2) ? NULL : &c, flags, "test");

    CHECK_SAY((start != 0) == (here || imported), "%zu units, align %zu phase %zu nocross %zu least %zu most %zu, flags %x: got %zu",
              units, c.align, c.phase, c.nocross, (size_t)c.least, (size_t)c.most, (unsigned)flags, (size_t)start);
    if (start == 0)
        return;
    size_t unit = unit_of(start);
    CHECK(start == integer(unit) && satisfies(&c, unit, units));
    for (size_t i = unit; i < unit + units; i++)
        CHECK(!model.used[i] && span_of(i) == span_of(unit));
    if (here && is_none(&c))
        check_policy(unit, units, flags);
    if (is_next)
        CHECK_SAY(unit == next || (far && unit == near), "%zu units, align %zu phase %zu nocross %zu least %zu most %zu from %zu (span %zu): got %zu, next is %zu",
                  units, c.align, c.phase, c.nocross, (size_t)c.least, (size_t)c.most, model.rotor, model.rotor_span, unit, next);
    memset(model.used + unit, true, units);
    if (flags & VMAG_VM_NEXTFIT) {
        model.rotor = unit + units;
        model.rotor_span = span_of(unit);
        model.rotor_used = true;
    }
    model.live[model.lives].start = unit;
    model.live[model.lives++].size = size;
}

static void release(size_t number) {
    size_t unit = model.live[number].start, size = model.live[number].size, units = (size + model.quantum - 1) / model.quantum;

    CHECK(!vmem_segment_free(&model.arena->segments, integer(unit), (units + 1) * model.quantum, VMEM_CLEAN));
    memset(model.used + unit, false, units);
    model.live[number] = model.live[--model.lives];
    resource_free(model.arena, integer(unit), size, "test");
}

// Spans of the model and of the arena are the same, and so is what is allocated.
static void see(void *bytes, void *address, size_t size) {
    bool found = false;

    for (size_t i = 0; i < model.lives; i++)
        found |= integer(model.live[i].start) == (uintptr_t)address && model.live[i].size == size;
    CHECK(found);
    for (size_t unit = unit_of((uintptr_t)address), units = (size + model.quantum - 1) / model.quantum; units > 0; units--, unit++)
        CHECK(model.used[unit]);
    ++*(size_t *)bytes;
}

static void see_span(void *count, void *address, size_t size) {
    struct span *span = &model.spans[(*(size_t *)count)++];

    CHECK(integer(span->start) == (uintptr_t)address && (span->end - span->start) * model.quantum == size);
}

static void look(void) {
    size_t segments = 0, spans = 0, bytes = 0;

    vmem_check(&model.arena->segments);
    resource_walk(model.arena, VMAG_VMEM_ALLOC, see, &segments);
    resource_walk(model.arena, VMAG_VMEM_SPAN, see_span, &spans);
    for (size_t i = 0; i < model.lives; i++)
        bytes += model.live[i].size;
    CHECK(segments == model.lives && spans == model.span_count);
    CHECK_EQ(resource_size(model.arena, VMAG_VMEM_ALLOC), bytes);
    for (size_t i = 0; i < model.span_count; i++) // an imported span has a live segment
        if (model.spans[i].imported) {
            bool live = false;

            for (size_t unit = model.spans[i].start; unit < model.spans[i].end; unit++)
                live |= model.used[unit];
            CHECK(live);
        }
}

static void add(size_t start, size_t units) {
    memset(model.out + start, true, units);
    CHECK(resource_add(model.arena, integer(start), units * model.quantum, VMAG_VM_NOSLEEP, "test"));
    span_append(start, units, false);
    for (size_t i = model.span_count - 1; i > 0 && model.spans[i - 1].start > model.spans[i].start; i--) {
        struct span later = model.spans[i - 1];

        model.spans[i - 1] = model.spans[i];
        model.spans[i] = later;
    }
}

static void run(size_t quantum, bool importing) {
    memset(&model, 0, sizeof model);
    model.quantum = quantum;
    model.arena = resource_create("model", 0, 0, quantum, importing ? source_import : NULL, importing ? source_release : NULL, NULL, 0,
                                  VMAG_VM_NOSLEEP);
    add(100, 200);
    if (!importing) { // one span touches another, and they are not in order
        add(700, 100);
        add(300, 50);
    }
    for (int i = 0; i < STEPS; i++) {
        model.refuse = below(16) == 0;
        if (model.lives < LIVES_MOST && below(100) < 50 + (unsigned)(i / 5000 % 2) * 10)
            alloc();
        else if (model.lives > 0)
            release(below(model.lives));
        if (i % LOOK_EVERY == 0)
            look();
    }
    while (model.lives > 0)
        release(below(model.lives));
    look();
    CHECK_EQ(model.span_count, importing ? 1u : 3u);
    resource_destroy(model.arena);
}

int main(void) {
    run(1, false);
    run(16, false);
    run(1, true);
    run(16, true);
    return 0;
}
