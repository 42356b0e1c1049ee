// Segments of a vmem arena: boundary tags, the rings of spans, the free lists, the hash of what is allocated.
//
// Private to this folder; everything here is called with the arena's lock held unless it says otherwise. The small operations
// are inline because the heap's arenas go through them for every run.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "util/assert.h"
#include "util/bits.h"
#include "vmem/vmem.h"

enum { SEGMENT_SPAN = VMEM_SEGMENT_SPAN, SEGMENT_FREE = VMEM_SEGMENT_FREE, SEGMENT_ALLOC = VMEM_SEGMENT_ALLOC };

// A boundary tag. A span marker heads the ring of its segments.
struct vmem_segment {
	uintptr_t start;
	size_t size;
	struct vmem_segment *prev, *next;           // neighbours in address order; the marker closes the ring
	struct vmem_segment *list_next, *list_prev; // free list, hash chain (next only), list of spans, stock (next only)
	size_t dirty; // bytes, while free; of what is allocated in an arena of clean segments: how much less than its size was asked for
	uint8_t type;
	uint8_t kind;
	bool imported; // markers only
};

// One allocation needs two tags at most (front and back remainder), one import two more.
enum { TAGS_OF_SPAN = 2, TAGS_NEEDED = 2 + TAGS_OF_SPAN, TAGS_STOCKED = 16 };

// tags.c: the stock of boundary tags.

// With the lock held: gets more tags, letting go of the lock meanwhile. False: no memory; the lock is not held.
bool vmem_tags_populate(struct vmem *arena, unsigned tags);
// Tags beyond the stock, taken out; to be given back to base without the lock.
struct vmem_segment *vmem_tags_detach(struct vmem *arena);
void vmem_tags_trim(struct vmem_segment *tags);

static inline struct vmem_segment *tag_take(struct vmem *arena)
{
	struct vmem_segment *tag = arena->spare;

	ASSERT(tag != NULL);
	arena->spare = tag->list_next;
	arena->spares--;
	return tag;
}

static inline void tag_return(struct vmem *arena, struct vmem_segment *tag)
{
	tag->list_next = arena->spare;
	arena->spare = tag;
	arena->spares++;
}

// Takes the lock with at least that many tags in stock. False: no memory; the lock is not held.
static inline bool lock_with_tags(struct vmem *arena, unsigned tags)
{
	mutex_lock(&arena->lock);
	return LIKELY(arena->spares >= tags) || vmem_tags_populate(arena, tags);
}

// Free lists: list n < 32 holds segments of exactly n + 1 quanta, each later one a power of two.

static inline unsigned list_index(const struct vmem *arena, size_t size)
{
	size_t quanta = size >> arena->lg_quantum;

	return quanta <= VMEM_EXACT_LISTS ? (unsigned)quanta - 1 : VMEM_EXACT_LISTS + lg_floor(quanta) - 5;
}

static inline void list_insert(struct vmem *arena, struct vmem_segment *segment)
{
	unsigned index = list_index(arena, segment->size);
	struct vmem_list *list = &arena->lists[segment->kind][index];

	segment->type = SEGMENT_FREE;
	segment->list_prev = NULL;
	segment->list_next = list->first;
	if (list->first != NULL)
		list->first->list_prev = segment;
	list->first = segment;
	arena->lists_used[segment->kind][index / 64] |= 1ull << index % 64;
	arena->bytes[segment->kind] += segment->size;
	arena->dirty_bytes += segment->dirty;
}

static inline void list_remove(struct vmem *arena, struct vmem_segment *segment)
{
	unsigned index = list_index(arena, segment->size);
	struct vmem_list *list = &arena->lists[segment->kind][index];

	if (segment->list_prev != NULL)
		segment->list_prev->list_next = segment->list_next;
	else
		list->first = segment->list_next;
	if (segment->list_next != NULL)
		segment->list_next->list_prev = segment->list_prev;
	if (list->first == NULL)
		arena->lists_used[segment->kind][index / 64] &= ~(1ull << index % 64);
	arena->bytes[segment->kind] -= segment->size;
	arena->dirty_bytes -= segment->dirty;
}

// The first list from `index` on that is not empty, or VMEM_LISTS.
static inline unsigned list_from(const struct vmem *arena, unsigned kind, unsigned index)
{
	for (unsigned word = index / 64; word < 2; word++) {
		uint64_t used = arena->lists_used[kind][word];

		if (word == index / 64)
			used &= ~0ull << index % 64;
		if (used != 0)
			return word * 64 + first_bit(used);
	}
	return VMEM_LISTS;
}

static inline unsigned list_last(const struct vmem *arena, unsigned kind)
{
	for (unsigned word = 2; word-- > 0;)
		if (arena->lists_used[kind][word] != 0)
			return word * 64 + lg_floor(arena->lists_used[kind][word]);
	return VMEM_LISTS;
}

// The hash of allocated segments by address; hash.c lets it grow and shrink.

// Neighbours have neighbouring buckets, which the processor's caches like, as far as the table reaches; where each such
// stretch begins is mixed, so that no stride of addresses makes long chains.
static inline struct vmem_segment **bucket(const struct vmem *arena, uintptr_t start)
{
	uintptr_t number = start >> arena->lg_quantum;
	unsigned lg = arena->lg_buckets;
	uint64_t offset = hash_bits(number >> lg, lg);

	return &arena->buckets[(number + offset) & (((uintptr_t)1 << lg) - 1)];
}

static inline void hash_insert(struct vmem *arena, struct vmem_segment *segment)
{
	struct vmem_segment **head = bucket(arena, segment->start);

	segment->type = SEGMENT_ALLOC;
	segment->list_next = *head;
	*head = segment;
	arena->segments_allocated++;
}

// Where the chain points to the segment that begins there, or its end.
static inline struct vmem_segment **hash_find(struct vmem *arena, uintptr_t start)
{
	struct vmem_segment **at = bucket(arena, start);

	while (*at != NULL && (*at)->start != start) {
		at = &(*at)->list_next;
		arena->lookups++;
	}
	return at;
}

static inline void hash_remove(struct vmem *arena, struct vmem_segment **at)
{
	*at = (*at)->list_next;
	arena->segments_allocated--;
}

static inline bool hash_is_full(const struct vmem *arena)
{
	return arena->segments_allocated > (size_t)2 << arena->lg_buckets;
}

static inline bool hash_is_sparse(const struct vmem *arena)
{
	return arena->buckets != arena->first_buckets && arena->segments_allocated < (size_t)1 << arena->lg_buckets >> 5;
}

// Chooses the size anew. Called without the lock; without memory chains just stay long.
void vmem_hash_resize(struct vmem *arena);
void vmem_hash_free(struct vmem *arena);

// segment.c: rings, spans, splitting and joining.

static inline void unlink_segment(struct vmem_segment *segment)
{
	segment->prev->next = segment->next;
	segment->next->prev = segment->prev;
}

static inline void become_free(struct vmem_segment *segment, enum vmem_kind kind)
{
	segment->type = SEGMENT_FREE;
	segment->kind = (uint8_t)kind;
	segment->dirty = kind == VMEM_DIRTY ? segment->size : 0;
}

// Whether a span, all of it free, goes back to its source: where nobody takes it back it stays.
static inline bool is_returnable(const struct vmem *arena, const struct vmem_segment *span)
{
	return span->imported && arena->release != NULL;
}

// True when the free, clean segment is all of such a span.
static inline bool is_whole_import(const struct vmem *arena, const struct vmem_segment *segment)
{
	return segment->kind == VMEM_CLEAN && segment->prev == segment->next && segment->prev->type == SEGMENT_SPAN &&
	       is_returnable(arena, segment->prev);
}

// A free segment behind `before`, on no list yet.
struct vmem_segment *vmem_segment_new(struct vmem *arena, uintptr_t start, size_t size, struct vmem_segment *before);

// Whether two neighbours, of which the second may be anything, are to be one.
bool vmem_can_join(const struct vmem *arena, const struct vmem_segment *segment, const struct vmem_segment *neighbour);

// Adds the free segment `other`, the neighbour behind, to one that is on no list.
void vmem_absorb(struct vmem *arena, struct vmem_segment *segment, struct vmem_segment *other);

// Joins a segment that is on no list with its free neighbours.
void vmem_coalesce(struct vmem *arena, struct vmem_segment *segment);

// Cuts `size` bytes at `start` off a free segment that is on no list, as a free one of their own behind `before`.
void vmem_split_off(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size, struct vmem_segment *before);

// Takes [start, start + size) out of a free segment and makes it an allocated one; what is left on either side stays free.
void vmem_carve(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size);

// The marker of the new span.
struct vmem_segment *vmem_span_insert(struct vmem *arena, uintptr_t start, size_t size, bool imported);
// Takes the span out whose only segment is `segment`, which is on no list.
void vmem_span_remove(struct vmem *arena, struct vmem_segment *span, struct vmem_segment *segment);

// cursor.c: places that last.

// Says that a tag leaves its ring; cursors at it go to `to`, which covers or follows it.
void vmem_cursors_leave_slow(struct vmem *arena, const struct vmem_segment *tag, struct vmem_segment *to);
// The segment in which next fit begins to look, of an arena that has spans, and from which integer on.
struct vmem_segment *vmem_rotor_segment(struct vmem *arena, uintptr_t *from);

static inline void cursors_leave(struct vmem *arena, const struct vmem_segment *tag, struct vmem_segment *to)
{
	if (UNLIKELY(arena->cursors != NULL))
		vmem_cursors_leave_slow(arena, tag, to);
}

// resize.c: beyond one segment.

// Free neighbours that are not joined, because some are dirty and some clean, as one piece; start 0: none that are large enough.
struct vmem_piece vmem_take_neighbours(struct vmem *arena, size_t size);

// fit.c: the policies.

// Bytes beyond the size of a request that a range aligned to `given` must have so that the request surely has a place in it,
// whatever the range; of constraints without limits.
size_t vmem_constraint_slack(const struct vmem_constraint *constraint, size_t given);

// A free segment of that kind for the request, and where in it; NULL: none. `thorough`: none at all, and not just none that is
// found in constant time.
struct vmem_segment *vmem_fit(struct vmem *arena, enum vmem_kind kind, size_t size, enum vmem_policy policy, bool thorough);
struct vmem_segment *vmem_fit_constrained(struct vmem *arena, enum vmem_kind kind, size_t size,
					  const struct vmem_constraint *constraint, enum vmem_policy policy, bool thorough, uintptr_t *start);
// Of any kind, the next one from the rotor on.
struct vmem_segment *vmem_fit_next(struct vmem *arena, size_t size, const struct vmem_constraint *constraint, uintptr_t *start);
