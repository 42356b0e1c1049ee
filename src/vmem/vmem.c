// vmem arenas: allocation, import, freeing, release of whole spans (2001, §4.4).
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include <string.h>

#include "vmem/segment.h"

void vmem_init(struct vmem *arena, const char *name, unsigned lg_quantum, enum vmem_policy policy, enum mutex_rank rank)
{
	memset(arena, 0, sizeof *arena);
	vmem_begin(arena, name, lg_quantum, policy, rank);
}

void vmem_begin(struct vmem *arena, const char *name, unsigned lg_quantum, enum vmem_policy policy, enum mutex_rank rank)
{
	arena->name = name;
	arena->lg_quantum = lg_quantum;
	arena->apart = (size_t)VMEM_APART << lg_quantum;
	arena->policy = policy;
	arena->buckets = arena->first_buckets;
	arena->lg_buckets = lg_floor(VMEM_FIRST_BUCKETS);
	mutex_init(&arena->lock, rank);
}

void vmem_import_from(struct vmem *arena, void *source, vmem_import *import, vmem_release *release, size_t unit, size_t align)
{
	arena->source = source;
	arena->import = import;
	arena->release = release;
	arena->import_unit = unit;
	arena->import_align = align;
}

COLD bool vmem_span_add(struct vmem *arena, uintptr_t start, size_t size)
{
	if (!lock_with_tags(arena, TAGS_NEEDED))
		return false;
	vmem_span_insert(arena, start, size, false);
	mutex_unlock(&arena->lock);
	return true;
}

// Of the last span, which was the only one out of order.
static void move_to_its_place(struct vmem *arena, struct vmem_segment *span)
{
	struct vmem_segment *last = span->list_prev, *before = arena->spans->start > span->start ? NULL : last;

	while (before != NULL && before->start > span->start)
		before = before->list_prev;
	if (before == last)
		return;
	arena->last_span = last;
	last->list_next = NULL;
	span->list_prev = before;
	span->list_next = before != NULL ? before->list_next : arena->spans;
	span->list_next->list_prev = span;
	if (before != NULL)
		before->list_next = span;
	else
		arena->spans = span;
}

bool vmem_span_add_in_order(struct vmem *arena, uintptr_t start, size_t size)
{
	if (!lock_with_tags(arena, TAGS_NEEDED))
		return false;
	move_to_its_place(arena, vmem_span_insert(arena, start, size, false));
	mutex_unlock(&arena->lock);
	return true;
}

static const struct vmem_piece none = { 0, VMEM_CLEAN, 0 };

static struct vmem_piece take_segment(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size)
{
	vmem_carve(arena, segment, start, size);
	arena->allocs++;
	return (struct vmem_piece){ start, (enum vmem_kind)segment->kind, segment->dirty };
}

// Next fit moves the rotor behind what it took.
static struct vmem_piece take_next(struct vmem *arena, size_t size, const struct vmem_constraint *constraint)
{
	uintptr_t start;
	struct vmem_segment *segment = vmem_fit_next(arena, size, constraint, &start);

	if (segment == NULL)
		return none;
	struct vmem_piece piece = take_segment(arena, segment, start, size);
	arena->rotor.at = segment;
	arena->rotor.address = start + size;
	__builtin_prefetch(bucket(arena, start + size)); // where the next one will probably go
	return piece;
}

static struct vmem_piece take_constrained(struct vmem *arena, size_t size, const struct vmem_constraint *constraint,
					  enum vmem_policy policy, bool thorough)
{
	for (int kind = VMEM_DIRTY; kind >= VMEM_CLEAN; kind--) {
		uintptr_t start;
		struct vmem_segment *segment = vmem_fit_constrained(arena, (enum vmem_kind)kind, size, constraint, policy, thorough, &start);

		if (segment != NULL)
			return take_segment(arena, segment, start, size);
	}
	return none;
}

static inline struct vmem_piece take(struct vmem *arena, size_t size, enum vmem_policy policy, bool thorough)
{
	for (int kind = VMEM_DIRTY; kind >= VMEM_CLEAN; kind--)
		if (arena->bytes[kind] >= size) {
			struct vmem_segment *segment = vmem_fit(arena, (enum vmem_kind)kind, size, policy, thorough);

			if (segment != NULL)
				return take_segment(arena, segment, segment->start, size);
		}
	return none;
}

size_t vmem_expect_dirty(struct vmem *arena, size_t size)
{
	struct vmem_segment *segment;
	size_t dirty;

	mutex_lock(&arena->lock);
	segment = arena->bytes[VMEM_DIRTY] < size ? NULL : vmem_fit(arena, VMEM_DIRTY, size, arena->policy, false);
	dirty = segment == NULL ? 0 : min_size(segment->dirty, size);
	mutex_unlock(&arena->lock);
	return dirty;
}

bool vmem_has_room(struct vmem *arena, size_t size)
{
	bool has;

	mutex_lock(&arena->lock);
	has = vmem_fit(arena, VMEM_DIRTY, size, arena->policy, false) != NULL || vmem_fit(arena, VMEM_CLEAN, size, arena->policy, false) != NULL;
	mutex_unlock(&arena->lock);
	return has;
}

// What is found in constant time, of either kind, before anything is searched for.
static __attribute__((noinline)) struct vmem_piece take_where_it_may(struct vmem *arena, size_t size, const struct vmem_constraint *constraint,
								     enum vmem_policy policy)
{
	struct vmem_piece piece = take_constrained(arena, size, constraint, policy, false);

	return piece.start != 0 ? piece : take_constrained(arena, size, constraint, policy, true);
}

static struct vmem_piece take_as_asked(struct vmem *arena, size_t size, const struct vmem_constraint *constraint,
				       enum vmem_policy policy)
{
	if (policy == VMEM_NEXTFIT)
		return take_next(arena, size, constraint);
	return constraint == NULL ? take(arena, size, policy, true) : take_where_it_may(arena, size, constraint, policy);
}

// The size of an import that has a place for the request; 0: there can be none. Limits on the place cannot be met by importing
// (2001, §4.3.3).
static inline size_t import_size(const struct vmem *arena, size_t size, const struct vmem_constraint *constraint)
{
	size_t slack = 0;

	if (arena->import == NULL)
		return 0;
	if (constraint != NULL) {
		if (constraint->least != 0 || constraint->most != 0)
			return 0;
		slack = vmem_constraint_slack(constraint, arena->import_align);
	}
	if (size > SIZE_MAX / 4 || slack > SIZE_MAX / 4)
		return 0;
	return round_up(size + slack, arena->import_unit);
}

// Imports a span and allocates. Others may have freed enough meanwhile: if the span is not touched, it goes back at once.
static COLD struct vmem_piece import_and_take(struct vmem *arena, size_t size, const struct vmem_constraint *constraint,
					 enum vmem_policy policy, int flags, bool thorough)
{
	struct vmem_piece piece = none;
	size_t span_size = import_size(arena, size, constraint);
	uintptr_t start = span_size == 0 ? 0 : arena->import(arena->source, span_size, flags);
	bool superfluous = arena->release != NULL;

	if (start == 0)
		return piece;
	if (lock_with_tags(arena, TAGS_NEEDED)) {
		struct vmem_segment *span = vmem_span_insert(arena, start, span_size, true);

		piece = thorough ? take_as_asked(arena, size, constraint, policy) : take(arena, size, policy, false);
		superfluous = is_returnable(arena, span) && span->next->next == span && span->next->type == SEGMENT_FREE;
		if (superfluous) {
			list_remove(arena, span->next);
			vmem_span_remove(arena, span, span->next);
		}
		mutex_unlock(&arena->lock);
	}
	if (superfluous)
		arena->release(arena->source, start, span_size);
	return piece;
}

// The hash table grows while the lock is not held.
static inline void unlock_after_taking(struct vmem *arena)
{
	bool crowded = hash_is_full(arena);

	mutex_unlock(&arena->lock);
	if (UNLIKELY(crowded))
		vmem_hash_resize(arena);
}

// Who finds no room here, and a moment later none in the source, may have missed what another one brought from there, added or freed meanwhile, and looks
// again (illumos: vmem_canalloc). The source is not asked again: it may take its time, and others may free all the while.
struct vmem_piece vmem_segment_xalloc(struct vmem *arena, size_t size, const struct vmem_constraint *constraint,
				      enum vmem_policy policy, int flags)
{
	struct vmem_piece piece;

	size = round_up(size, (size_t)1 << arena->lg_quantum);
	if (size == 0 || !lock_with_tags(arena, TAGS_NEEDED))
		return none;
	piece = take_as_asked(arena, size, constraint, policy);
	unlock_after_taking(arena);
	if (piece.start != 0 || import_size(arena, size, constraint) == 0)
		return piece;
	piece = import_and_take(arena, size, constraint, policy, flags, true);
	if (piece.start != 0 || !lock_with_tags(arena, TAGS_NEEDED))
		return piece;
	piece = take_as_asked(arena, size, constraint, policy);
	unlock_after_taking(arena);
	return piece;
}

// Out of line: nothing of it runs at start.
static __attribute__((noinline)) struct vmem_piece take_thoroughly(struct vmem *arena, size_t size)
{
	struct vmem_piece piece = none;

	if (lock_with_tags(arena, TAGS_NEEDED)) {
		piece = take(arena, size, arena->policy, true);
		mutex_unlock(&arena->lock);
	}
	return piece;
}

static struct vmem_piece search_aligned(struct vmem *arena, size_t size, const struct vmem_constraint *aligned)
{
	struct vmem_piece piece = none;

	if (lock_with_tags(arena, TAGS_NEEDED)) {
		piece = take_constrained(arena, size, aligned, arena->policy, true);
		unlock_after_taking(arena);
	}
	return piece;
}

struct vmem_piece vmem_segment_alloc_aligned(struct vmem *arena, size_t size, size_t align)
{
	struct vmem_constraint aligned = { .align = align };
	struct vmem_piece piece;

	size = round_up(size, (size_t)1 << arena->lg_quantum);
	if (size == 0 || !lock_with_tags(arena, TAGS_NEEDED))
		return none;
	piece = take_constrained(arena, size, &aligned, arena->policy, false);
	unlock_after_taking(arena);
	if (piece.start == 0)
		piece = import_and_take(arena, size, &aligned, arena->policy, 0, true);
	return piece.start != 0 ? piece : search_aligned(arena, size, &aligned);
}

// What was freed in small pieces is used again in small pieces.
static struct vmem_piece take_times(struct vmem *arena, size_t size, unsigned *lg_times)
{
	for (int kind = VMEM_DIRTY; kind >= VMEM_CLEAN; kind--)
		for (unsigned lg = *lg_times + 1; lg-- > 0;) {
			struct vmem_segment *segment = vmem_fit(arena, (enum vmem_kind)kind, size << lg, arena->policy, false);

			if (segment != NULL) {
				*lg_times = lg;
				return take_segment(arena, segment, segment->start, size << lg);
			}
		}
	return none;
}

struct vmem_piece vmem_segment_alloc_times(struct vmem *arena, size_t size, unsigned *lg_times)
{
	struct vmem_piece piece;

	if (*lg_times == 0)
		return vmem_segment_alloc(arena, size);
	size = round_up(size, (size_t)1 << arena->lg_quantum);
	if (size == 0 || !lock_with_tags(arena, TAGS_NEEDED))
		return none;
	piece = take_times(arena, size, lg_times);
	unlock_after_taking(arena);
	if (piece.start == 0)
		piece = import_and_take(arena, size << *lg_times, NULL, arena->policy, 0, false);
	if (piece.start != 0)
		return piece;
	*lg_times = 0;
	return vmem_segment_alloc(arena, size);
}

// Without a choice, for the heap: what can be imported is not searched for at length. But a place of which a part was purged since is still one.
struct vmem_piece vmem_segment_alloc(struct vmem *arena, size_t size)
{
	struct vmem_piece piece;

	size = round_up(size, (size_t)1 << arena->lg_quantum);
	if (size == 0 || !lock_with_tags(arena, TAGS_NEEDED))
		return none;
	piece = take(arena, size, arena->policy, arena->import == NULL);
	if (UNLIKELY(piece.start == 0 && arena->bytes[VMEM_DIRTY] > 0))
		piece = vmem_take_neighbours(arena, size);
	unlock_after_taking(arena);
	if (LIKELY(piece.start != 0))
		return piece;
	piece = import_and_take(arena, size, NULL, arena->policy, 0, false);
	return piece.start != 0 || arena->import == NULL ? piece : take_thoroughly(arena, size);
}

// Tags and buckets beyond what is needed; rarely any.
static void give_back(struct vmem *arena, struct vmem_segment *excess, bool sparse)
{
	vmem_tags_trim(excess);
	if (sparse)
		vmem_hash_resize(arena);
}

bool vmem_segment_free(struct vmem *arena, uintptr_t start, size_t size, enum vmem_kind kind)
{
	struct vmem_segment *segment, **at, *excess = NULL;
	uintptr_t returned = 0;
	size_t returned_size = 0;
	bool sparse = false;

	size = round_up(size, (size_t)1 << arena->lg_quantum);
	mutex_lock(&arena->lock);
	at = hash_find(arena, start);
	segment = *at;
	if (segment == NULL || segment->size != size) {
		mutex_unlock(&arena->lock);
		return false;
	}
	__builtin_prefetch(segment->next, 1); // both are on their way before one is looked at
	__builtin_prefetch(segment->prev, 1);
	hash_remove(arena, at);
	become_free(segment, kind);
	vmem_coalesce(arena, segment);
	if (is_whole_import(arena, segment)) {
		returned = segment->start;
		returned_size = segment->size;
		vmem_span_remove(arena, segment->prev, segment);
	} else
		list_insert(arena, segment);
	arena->frees++;
	if (arena->spares > TAGS_STOCKED) {
		excess = vmem_tags_detach(arena);
		sparse = hash_is_sparse(arena);
	}
	mutex_unlock(&arena->lock);
	if (excess != NULL)
		give_back(arena, excess, sparse);
	if (returned != 0)
		arena->release(arena->source, returned, returned_size);
	return true;
}

size_t vmem_segment_size(struct vmem *arena, uintptr_t start)
{
	mutex_lock(&arena->lock);
	struct vmem_segment *segment = *hash_find(arena, start);
	size_t size = segment == NULL ? 0 : segment->size;
	mutex_unlock(&arena->lock);
	return size;
}

void vmem_segment_set_unused(struct vmem *arena, uintptr_t start, size_t bytes)
{
	mutex_lock(&arena->lock);
	struct vmem_segment *segment = *hash_find(arena, start);
	if (segment != NULL) // else who walks has freed it by now
		segment->dirty = bytes;
	mutex_unlock(&arena->lock);
}

size_t vmem_segment_asked(struct vmem *arena, uintptr_t start)
{
	mutex_lock(&arena->lock);
	struct vmem_segment *segment = *hash_find(arena, start);
	size_t asked = segment == NULL ? 0 : segment->size - segment->dirty;
	mutex_unlock(&arena->lock);
	return asked;
}

static bool is_within(const struct vmem_segment *span, uintptr_t start, size_t size)
{
	return start >= span->start && start - span->start < span->size && size <= span->size - (start - span->start);
}

bool vmem_covers(struct vmem *arena, uintptr_t start, size_t size)
{
	struct vmem_segment *span;

	mutex_lock(&arena->lock);
	for (span = arena->spans; span != NULL && !is_within(span, start, size);)
		span = span->list_next;
	mutex_unlock(&arena->lock);
	return span != NULL;
}

bool vmem_overlaps(struct vmem *arena, uintptr_t start, size_t size)
{
	struct vmem_segment *span;

	mutex_lock(&arena->lock);
	for (span = arena->spans; span != NULL && !(start < span->start + span->size && span->start < start + size);)
		span = span->list_next;
	mutex_unlock(&arena->lock);
	return span != NULL;
}

// Among the segments before it, or among the spans, whichever is found first: there may be many of either.
uintptr_t vmem_span_around(struct vmem *arena, uintptr_t address, size_t *size)
{
	uintptr_t start = 0;

	mutex_lock(&arena->lock);
	const struct vmem_segment *segment = *hash_find(arena, address), *span = arena->spans;

	while (span != NULL && !is_within(span, address, 1)) {
		segment = segment == NULL ? NULL : segment->prev;
		span = segment != NULL && segment->type == SEGMENT_SPAN ? segment : span->list_next;
	}
	if (span != NULL) {
		start = span->start;
		*size = span->size;
	}
	mutex_unlock(&arena->lock);
	return start;
}

static bool is_unused_import(const struct vmem *arena, const struct vmem_segment *span)
{
	const struct vmem_segment *at = span->next;

	while (at->type == SEGMENT_FREE)
		at = at->next;
	return at == span && is_returnable(arena, span);
}

// Takes a span out of which nothing is allocated.
static void take_span(struct vmem *arena, struct vmem_segment *span)
{
	struct vmem_segment *segment = span->next;

	list_remove(arena, segment);
	while (segment->next != span)
		vmem_absorb(arena, segment, segment->next);
	vmem_span_remove(arena, span, segment);
}

// What is beyond need after spans went: it may be that nothing is freed later, which would give it back (vmem_segment_free).
static __attribute__((noinline)) void trim(struct vmem *arena)
{
	struct vmem_segment *excess;
	bool sparse;

	mutex_lock(&arena->lock);
	excess = vmem_tags_detach(arena);
	sparse = hash_is_sparse(arena);
	mutex_unlock(&arena->lock);
	if (excess != NULL)
		give_back(arena, excess, sparse);
}

// Takes the next such span from the cursor on out, which is at a marker. 0: there is none.
static uintptr_t take_unused_import(struct vmem *arena, struct vmem_cursor *cursor, size_t *size)
{
	struct vmem_segment *span = cursor->at;
	uintptr_t start;

	while (span != NULL && !is_unused_import(arena, span))
		span = span->list_next;
	cursor->at = span;
	if (span == NULL)
		return 0;
	start = span->start;
	*size = span->size;
	take_span(arena, span); // the cursor goes on to the next
	return start;
}

void vmem_return_spans(struct vmem *arena)
{
	struct vmem_cursor cursor;
	uintptr_t start;
	size_t size;

	vmem_walk_begin(arena, &cursor);
	do {
		mutex_lock(&arena->lock);
		start = take_unused_import(arena, &cursor, &size);
		mutex_unlock(&arena->lock);
		if (start != 0)
			arena->release(arena->source, start, size);
	} while (start != 0);
	vmem_walk_end(arena, &cursor);
	trim(arena);
}

// The marker of the imported span around an allocated segment that is all that is allocated of it. NULL: it is not all.
static struct vmem_segment *span_of_last(const struct vmem *arena, const struct vmem_segment *segment)
{
	struct vmem_segment *span = NULL, *at = segment->next;

	for (; at->type != SEGMENT_ALLOC; at = at->next)
		span = at->type == SEGMENT_SPAN ? at : span;
	return at == segment && is_returnable(arena, span) ? span : NULL;
}

bool vmem_segment_free_last(struct vmem *arena, uintptr_t start, size_t size)
{
	struct vmem_segment **at, *span;
	size_t returned_size = 0;
	uintptr_t returned = 0;

	mutex_lock(&arena->lock);
	at = hash_find(arena, start);
	span = *at != NULL && (*at)->size == round_up(size, (size_t)1 << arena->lg_quantum) ? span_of_last(arena, *at) : NULL;
	if (span != NULL) {
		struct vmem_segment *segment = *at;

		returned = span->start;
		returned_size = span->size;
		hash_remove(arena, at);
		become_free(segment, VMEM_CLEAN);
		list_insert(arena, segment);
		take_span(arena, span);
		arena->frees++;
	}
	mutex_unlock(&arena->lock);
	if (returned == 0)
		return false;
	trim(arena);
	arena->release(arena->source, returned, returned_size);
	return true;
}

size_t vmem_largest(struct vmem *arena)
{
	size_t largest = 0;

	mutex_lock(&arena->lock);
	for (unsigned kind = 0; kind < VMEM_KINDS; kind++) {
		unsigned last = list_last(arena, kind);

		if (last != VMEM_LISTS)
			for (struct vmem_segment *at = arena->lists[kind][last].first; at != NULL; at = at->list_next)
				largest = max_size(largest, at->size);
	}
	mutex_unlock(&arena->lock);
	return largest;
}

// Takes the first span out with all its segments. True: it goes back to its source, for nothing of it is allocated.
static bool span_dissolve(struct vmem *arena, struct vmem_segment *span)
{
	bool is_free = true;

	for (struct vmem_segment *next, *at = span->next; at != span; at = next) {
		next = at->next;
		is_free &= at->type == SEGMENT_FREE;
		tag_return(arena, at);
	}
	arena->spans = span->list_next;
	tag_return(arena, span);
	return is_free && is_returnable(arena, span);
}

void vmem_fini(struct vmem *arena)
{
	struct vmem_segment *span;

	while ((span = arena->spans) != NULL) {
		uintptr_t start = span->start;
		size_t size = span->size;

		if (span_dissolve(arena, span))
			arena->release(arena->source, start, size);
	}
	vmem_hash_free(arena);
	vmem_tags_trim(arena->spare);
}
