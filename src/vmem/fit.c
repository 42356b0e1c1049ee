// Policies: which free segment serves a request (2001, §4.3.2, §4.4.2).
//
// Unconstrained requests look at a bounded number of segments: instant fit takes the first segment of the first list all of
// whose segments are large enough, best and first fit look at up to FIT_LOOKS of the list of the request's own size before
// they do so. Only where nothing larger is free do they look through all of that list, so that a request never fails while
// there is a place for it; the heap's page runs do that only when there is nothing to import either.
// Constrained requests look at up to FIT_LOOKS of each list, from that of their own size on. Where all segments of a list have a place, by their
// size, the first look finds it, so those are a few lists: at most 32 and one for each further power of two of the alignment. What
// that did not find is searched for in all that is large enough; for the heap's page runs again only when there is nothing to import.
// Next fit walks from the rotor on. Where the next NEXT_FIT_STEPS segments have nothing for it (the arena is nearly full, or
// one end of it is), it takes the nearest of the free lists' segments instead, so that a run of allocated segments
// costs nobody a walk through all of it.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/segment.h"

enum { FIT_LOOKS = 32, NEXT_FIT_STEPS = 256 };

// The first list all of whose segments are large enough, or VMEM_LISTS.
static unsigned list_surely(const struct vmem *arena, unsigned kind, size_t size)
{
	unsigned own = list_index(arena, size);
	bool own_fits = own < VMEM_EXACT_LISTS || is_power_of_two(size >> arena->lg_quantum);

	return list_from(arena, kind, own_fits ? own : own + 1);
}

// The smallest of the first few segments of a list that are large enough; `policy` first fit: the first.
static struct vmem_segment *best_of_list(struct vmem *arena, const struct vmem_list *list, size_t size, enum vmem_policy policy)
{
	struct vmem_segment *best = NULL;
	int looks = 0;

	for (struct vmem_segment *at = list->first; at != NULL && looks < FIT_LOOKS; at = at->list_next, looks++)
		if (at->size >= size && (best == NULL || at->size < best->size)) {
			best = at;
			if (at->size == size || policy == VMEM_FIRSTFIT)
				break;
		}
	arena->searches += (unsigned)looks;
	return best;
}

static struct vmem_segment *first_of_list(struct vmem *arena, const struct vmem_list *list, size_t size)
{
	struct vmem_segment *at = list->first;

	for (; at != NULL && at->size < size; at = at->list_next)
		arena->searches++;
	return at;
}

struct vmem_segment *vmem_fit(struct vmem *arena, enum vmem_kind kind, size_t size, enum vmem_policy policy, bool thorough)
{
	const struct vmem_list *lists = arena->lists[kind];
	unsigned own = list_index(arena, size);
	bool own_fits = own < VMEM_EXACT_LISTS || is_power_of_two(size >> arena->lg_quantum);
	struct vmem_segment *segment;
	unsigned next;

	if (!own_fits && policy != VMEM_INSTANTFIT && (segment = best_of_list(arena, &lists[own], size, policy)) != NULL)
		return segment;
	next = list_from(arena, kind, own_fits ? own : own + 1);
	if (next == VMEM_LISTS)
		return own_fits || !thorough ? NULL : first_of_list(arena, &lists[own], size);
	return policy == VMEM_BESTFIT ? best_of_list(arena, &lists[next], size, policy) : lists[next].first;
}

static bool crosses(uintptr_t start, size_t size, size_t boundary)
{
	return boundary != 0 && ((start ^ (start + size - 1)) & ~(boundary - 1)) != 0;
}

// Where a segment that satisfies the constraint could start within [from, from + room); 0 when nowhere.
static uintptr_t placed(uintptr_t from, size_t room, size_t size, const struct vmem_constraint *c, size_t quantum)
{
	uintptr_t end = from + room;
	uintptr_t start = from < c->least ? round_up(c->least, quantum) : from;

	if (c->most != 0 && end > c->most)
		end = c->most;
	if (c->align != 0)
		start = round_up(start - c->phase, c->align) + c->phase;
	if (crosses(start, size, c->nocross)) {
		start = round_up(round_up(start, c->nocross) - c->phase, c->align == 0 ? 1 : c->align) + c->phase;
		if (crosses(start, size, c->nocross)) // as every later place would
			return 0;
	}
	if (start < from || start < c->least || start >= end || end - start < size)
		return 0;
	return start;
}

// Like placed, of a segment from `from` on; `c` may be NULL.
static uintptr_t place_in(const struct vmem *arena, const struct vmem_segment *segment, uintptr_t from, size_t size,
			  const struct vmem_constraint *c)
{
	size_t room = segment->start + segment->size - from;

	if (segment->type != SEGMENT_FREE || room < size)
		return 0;
	return c == NULL ? from : placed(from, room, size, c, (size_t)1 << arena->lg_quantum);
}

static bool has_limits(const struct vmem_constraint *c)
{
	return c->least != 0 || c->most != 0;
}

size_t vmem_constraint_slack(const struct vmem_constraint *c, size_t given)
{
	return c->phase + max_size(c->align > given ? c->align : 0, c->nocross > given ? c->nocross : 0);
}

// In constant time: a segment so large that there surely is a place in it. NULL: there is none, or there are limits.
static struct vmem_segment *ample(const struct vmem *arena, enum vmem_kind kind, size_t size, const struct vmem_constraint *c)
{
	size_t slack = vmem_constraint_slack(c, (size_t)1 << arena->lg_quantum);
	unsigned list;

	if (has_limits(c) || size > SIZE_MAX / 4 || slack > SIZE_MAX / 4)
		return NULL;
	list = list_surely(arena, kind, round_up(size + slack, (size_t)1 << arena->lg_quantum));
	return list == VMEM_LISTS ? NULL : arena->lists[kind][list].first;
}

// Of one list: the first segment that has a place, or with best fit the smallest of the next few. Not `thorough`: of
// a few in any case.
static struct vmem_segment *place_in_list(struct vmem *arena, const struct vmem_list *list, size_t size,
					  const struct vmem_constraint *c, enum vmem_policy policy, bool thorough, uintptr_t *start)
{
	struct vmem_segment *best = NULL;
	int looks = 0;

	for (struct vmem_segment *at = list->first; at != NULL && looks < FIT_LOOKS; at = at->list_next) {
		uintptr_t place = best == NULL || at->size < best->size ? place_in(arena, at, at->start, size, c) : 0;

		if (place != 0) {
			best = at;
			*start = place;
			if (policy != VMEM_BESTFIT)
				break;
		}
		looks += !thorough || best != NULL;
		arena->searches++;
	}
	return best;
}

struct vmem_segment *vmem_fit_constrained(struct vmem *arena, enum vmem_kind kind, size_t size,
					  const struct vmem_constraint *constraint, enum vmem_policy policy, bool thorough, uintptr_t *start)
{
	unsigned index = list_from(arena, kind, list_index(arena, size));
	struct vmem_segment *segment = policy == VMEM_INSTANTFIT ? ample(arena, kind, size, constraint) : NULL;

	if (segment != NULL && (*start = place_in(arena, segment, segment->start, size, constraint)) != 0)
		return segment;
	for (; index < VMEM_LISTS; index = list_from(arena, kind, index + 1))
		if ((segment = place_in_list(arena, &arena->lists[kind][index], size, constraint, policy, thorough, start)) != NULL)
			return segment;
	return NULL;
}

// The first place in a segment from the rotor on, if the segment holds the rotor; else, or if there is none, from its start on.
static uintptr_t place_from_rotor(const struct vmem *arena, const struct vmem_segment *segment, size_t size,
				  const struct vmem_constraint *c)
{
	uintptr_t rotor = arena->rotor.address, place = 0;

	if (segment->start < rotor && rotor - segment->start < segment->size)
		place = place_in(arena, segment, rotor, size, c);
	return place != 0 ? place : place_in(arena, segment, segment->start, size, c);
}

// Of one kind: the free segment with a place whose distance from the rotor, around all integers, is less than that of `best`.
static struct vmem_segment *nearer(struct vmem *arena, unsigned kind, size_t size, const struct vmem_constraint *c,
				   struct vmem_segment *best, uintptr_t *start)
{
	uintptr_t rotor = arena->rotor.address;

	for (unsigned i = list_from(arena, kind, list_index(arena, size)); i < VMEM_LISTS; i = list_from(arena, kind, i + 1))
		for (struct vmem_segment *at = arena->lists[kind][i].first; at != NULL; at = at->list_next) {
			uintptr_t place = place_from_rotor(arena, at, size, c);

			if (place != 0 && (best == NULL || place - rotor < *start - rotor)) {
				best = at;
				*start = place;
			}
			arena->searches++;
		}
	return best;
}

struct vmem_segment *vmem_fit_next(struct vmem *arena, size_t size, const struct vmem_constraint *constraint, uintptr_t *start)
{
	struct vmem_segment *first, *at;
	uintptr_t from;

	if (list_from(arena, VMEM_CLEAN, list_index(arena, size)) == VMEM_LISTS &&
	    list_from(arena, VMEM_DIRTY, list_index(arena, size)) == VMEM_LISTS)
		return NULL;
	at = first = vmem_rotor_segment(arena, &from);
	for (int steps = 0; steps < NEXT_FIT_STEPS; steps++) {
		if ((*start = place_in(arena, at, from, size, constraint)) != 0)
			return at;
		if (at == first && steps > 0) // once around, and now all of it
			return NULL;
		at = at->next;
		if (at->type == SEGMENT_SPAN)
			at = (at->list_next == NULL ? arena->spans : at->list_next)->next;
		from = at->start;
		arena->searches++;
	}
	at = nearer(arena, VMEM_CLEAN, size, constraint, NULL, start);
	return nearer(arena, VMEM_DIRTY, size, constraint, at, start);
}
