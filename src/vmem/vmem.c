// vmem arenas: segments, boundary tags, free lists, import (2001, §4.4).
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/vmem.h"

#include <string.h>

#include "base/base.h"
#include "os/pages.h"
#include "util/assert.h"
#include "util/bits.h"

enum segment_type { SEGMENT_SPAN, SEGMENT_FREE, SEGMENT_ALLOC };

// A boundary tag. A span marker heads the ring of its segments.
struct vmem_segment {
	uintptr_t start;
	size_t size;
	struct vmem_segment *prev, *next;           // neighbours in address order; the marker closes the ring
	struct vmem_segment *list_next, *list_prev; // free list, hash chain (next only), list of spans, stock (next only)
	size_t dirty; // bytes, while free
	uint8_t type;
	uint8_t kind;
	bool imported; // markers only
};

// One allocation needs two tags at most (front and back remainder), one import two more.
enum { TAGS_NEEDED = 4, TAGS_STOCKED = 16, BEST_FIT_LOOKS = 32 };

static struct vmem_segment *tag_take(struct vmem *arena)
{
	struct vmem_segment *tag = arena->spare;

	ASSERT(tag != NULL);
	arena->spare = tag->list_next;
	arena->spares--;
	return tag;
}

static void tag_return(struct vmem *arena, struct vmem_segment *tag)
{
	tag->list_next = arena->spare;
	arena->spare = tag;
	arena->spares++;
}

// Tags beyond what coming operations need go back to base; called without the lock.
static void tags_trim(struct vmem_segment *tags)
{
	while (tags != NULL) {
		struct vmem_segment *next = tags->list_next;

		base_free(tags, sizeof *tags);
		tags = next;
	}
}

static struct vmem_segment *tags_detach(struct vmem *arena)
{
	struct vmem_segment *excess = NULL;

	while (arena->spares > TAGS_STOCKED) {
		struct vmem_segment *tag = tag_take(arena);

		tag->list_next = excess;
		excess = tag;
	}
	return excess;
}

// Takes the lock with at least that many tags in stock. False: no memory; the lock is not held.
static bool lock_with(struct vmem *arena, unsigned tags)
{
	mutex_lock(&arena->lock);
	while (arena->spares < tags) {
		mutex_unlock(&arena->lock);
		struct vmem_segment *tag = base_alloc(sizeof *tag);
		if (tag == NULL)
			return false;
		mutex_lock(&arena->lock);
		tag_return(arena, tag);
	}
	return true;
}

static bool lock_with_tags(struct vmem *arena)
{
	return lock_with(arena, TAGS_NEEDED);
}

static unsigned list_index(const struct vmem *arena, size_t size)
{
	size_t quanta = size >> arena->lg_quantum;

	return quanta <= VMEM_EXACT_LISTS ? (unsigned)quanta - 1 : VMEM_EXACT_LISTS + lg_floor(quanta) - 5;
}

static void list_insert(struct vmem *arena, struct vmem_segment *segment)
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

static void list_remove(struct vmem *arena, struct vmem_segment *segment)
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
static unsigned list_from(const struct vmem *arena, enum vmem_kind kind, unsigned index)
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

static unsigned list_last(const struct vmem *arena, enum vmem_kind kind)
{
	for (unsigned word = 2; word-- > 0;)
		if (arena->lists_used[kind][word] != 0)
			return word * 64 + lg_floor(arena->lists_used[kind][word]);
	return VMEM_LISTS;
}

static struct vmem_segment **bucket(const struct vmem *arena, uintptr_t start)
{
	uint64_t mixed = (start >> arena->lg_quantum) * 0x9e3779b97f4a7c15u;

	return &arena->buckets[mixed >> (64 - arena->lg_buckets)];
}

static void hash_insert(struct vmem *arena, struct vmem_segment *segment)
{
	struct vmem_segment **head = bucket(arena, segment->start);

	segment->type = SEGMENT_ALLOC;
	segment->list_next = *head;
	*head = segment;
	arena->segments_allocated++;
}

static struct vmem_segment **hash_find(struct vmem *arena, uintptr_t start)
{
	struct vmem_segment **at = bucket(arena, start);

	while (*at != NULL && (*at)->start != start)
		at = &(*at)->list_next;
	return at;
}

static void hash_remove(struct vmem *arena, struct vmem_segment **at)
{
	*at = (*at)->list_next;
	arena->segments_allocated--;
}

static void buckets_free(struct vmem *arena, struct vmem_segment **buckets, unsigned lg_count)
{
	size_t size = sizeof *buckets << lg_count;

	if (buckets == arena->first_buckets)
		return;
	if (size <= BASE_LARGEST)
		base_free(buckets, size);
	else
		os_pages_unmap(buckets, round_up(size, os_page_size()));
}

static struct vmem_segment **buckets_alloc(unsigned lg_count)
{
	size_t size = sizeof(struct vmem_segment *) << lg_count;
	struct vmem_segment **buckets = size <= BASE_LARGEST ? base_alloc(size) : os_pages_map(round_up(size, os_page_size()));

	if (buckets != NULL)
		memset(buckets, 0, size);
	return buckets;
}

// Grows the hash when chains have become long (two segments a bucket). Without memory chains just stay long.
static void hash_grow(struct vmem *arena)
{
	unsigned lg_old = arena->lg_buckets, lg_new = lg_old + 2;
	struct vmem_segment **fresh = buckets_alloc(lg_new), **old;

	if (fresh == NULL)
		return;
	mutex_lock(&arena->lock);
	old = arena->buckets;
	if (arena->lg_buckets != lg_old) { // somebody else was faster
		mutex_unlock(&arena->lock);
		buckets_free(arena, fresh, lg_new);
		return;
	}
	arena->buckets = fresh;
	arena->lg_buckets = lg_new;
	for (size_t i = 0; i < (size_t)1 << lg_old; i++)
		for (struct vmem_segment *next, *at = old[i]; at != NULL; at = next) {
			struct vmem_segment **head = bucket(arena, at->start);

			next = at->list_next;
			at->list_next = *head;
			*head = at;
		}
	mutex_unlock(&arena->lock);
	buckets_free(arena, old, lg_old);
}

static bool hash_is_full(const struct vmem *arena)
{
	return arena->segments_allocated > (size_t)2 << arena->lg_buckets;
}

void vmem_init(struct vmem *arena, const char *name, unsigned lg_quantum, enum vmem_policy policy, enum mutex_rank rank)
{
	memset(arena, 0, sizeof *arena);
	arena->name = name;
	arena->lg_quantum = lg_quantum;
	arena->policy = policy;
	arena->buckets = arena->first_buckets;
	arena->lg_buckets = lg_floor(VMEM_FIRST_BUCKETS);
	mutex_init(&arena->lock, rank);
}

void vmem_import_from(struct vmem *arena, struct vmem *source, vmem_import *import, vmem_release *release, size_t unit)
{
	arena->source = source;
	arena->import = import;
	arena->release = release;
	arena->import_unit = unit;
}

static void link_after(struct vmem_segment *segment, struct vmem_segment *before)
{
	segment->prev = before;
	segment->next = before->next;
	before->next->prev = segment;
	before->next = segment;
}

static void unlink_segment(struct vmem_segment *segment)
{
	segment->prev->next = segment->next;
	segment->next->prev = segment->prev;
}

// A free segment behind `before`, on no list yet.
static struct vmem_segment *segment_new(struct vmem *arena, uintptr_t start, size_t size, struct vmem_segment *before)
{
	struct vmem_segment *segment = tag_take(arena);

	segment->start = start;
	segment->size = size;
	segment->type = SEGMENT_FREE;
	segment->kind = VMEM_CLEAN;
	segment->dirty = 0;
	link_after(segment, before);
	return segment;
}

static void span_insert(struct vmem *arena, uintptr_t start, size_t size, bool imported)
{
	struct vmem_segment *span = tag_take(arena);

	span->type = SEGMENT_SPAN;
	span->start = start;
	span->size = size;
	span->imported = imported;
	span->prev = span->next = span;
	span->list_prev = NULL;
	span->list_next = arena->spans;
	if (arena->spans != NULL)
		arena->spans->list_prev = span;
	arena->spans = span;
	arena->total_bytes += size;
	list_insert(arena, segment_new(arena, start, size, span));
}

// Takes the span out whose only segment is `segment`, which is on no list.
static void span_remove(struct vmem *arena, struct vmem_segment *span, struct vmem_segment *segment)
{
	if (span->list_prev != NULL)
		span->list_prev->list_next = span->list_next;
	else
		arena->spans = span->list_next;
	if (span->list_next != NULL)
		span->list_next->list_prev = span->list_prev;
	arena->total_bytes -= span->size;
	tag_return(arena, segment);
	tag_return(arena, span);
}

static bool span_add(struct vmem *arena, uintptr_t start, size_t size, bool imported)
{
	if (!lock_with_tags(arena))
		return false;
	span_insert(arena, start, size, imported);
	mutex_unlock(&arena->lock);
	return true;
}

bool vmem_span_add(struct vmem *arena, uintptr_t start, size_t size)
{
	return span_add(arena, start, size, false);
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
	if (start < from || start >= end || end - start < size)
		return 0;
	return start;
}

// Adds the free segment `other`, a neighbour, to one that is on no list; the caller sets the start.
static void absorb(struct vmem *arena, struct vmem_segment *segment, struct vmem_segment *other)
{
	list_remove(arena, other);
	unlink_segment(other);
	segment->size += other->size;
	segment->dirty += other->dirty;
	segment->kind |= other->kind;
	tag_return(arena, other);
}

static bool is_large(const struct vmem *arena, const struct vmem_segment *segment)
{
	return segment->size >> arena->lg_quantum >= VMEM_APART;
}

static bool can_join(const struct vmem *arena, const struct vmem_segment *segment, const struct vmem_segment *neighbour)
{
	return neighbour->type == SEGMENT_FREE &&
	       (neighbour->kind == segment->kind || !is_large(arena, segment) || !is_large(arena, neighbour));
}

// Joins a segment that is on no list with its free neighbours.
static void coalesce(struct vmem *arena, struct vmem_segment *segment)
{
	for (;;)
		if (can_join(arena, segment, segment->next))
			absorb(arena, segment, segment->next);
		else if (can_join(arena, segment, segment->prev)) {
			segment->start = segment->prev->start;
			absorb(arena, segment, segment->prev);
		} else
			return;
}

// Cuts `size` bytes at `start` off a free segment that is on no list, as a free one of their own behind `before`. Where the
// dirty bytes lie is not known: each part gets its share.
static void split_off(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size, struct vmem_segment *before)
{
	struct vmem_segment *part = segment_new(arena, start, size, before);
	size_t share = (size_t)((unsigned __int128)segment->dirty * size / segment->size);

	part->kind = segment->kind;
	part->dirty = share;
	segment->dirty -= share;
	segment->size -= size;
	coalesce(arena, part);
	list_insert(arena, part);
}

// Takes [start, start + size) out of a free segment; what is left on either side stays free.
static void carve(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size)
{
	list_remove(arena, segment);
	segment->type = SEGMENT_ALLOC; // not to be joined by what is split off
	if (start > segment->start) {
		split_off(arena, segment, segment->start, start - segment->start, segment->prev);
		segment->start = start;
	}
	if (segment->size > size)
		split_off(arena, segment, start + size, segment->size - size, segment);
	hash_insert(arena, segment);
}

// The smallest of the first few segments of a list that are large enough.
static struct vmem_segment *best_of_list(const struct vmem_list *list, size_t size)
{
	struct vmem_segment *best = NULL;
	int looks = 0;

	for (struct vmem_segment *at = list->first; at != NULL && looks < BEST_FIT_LOOKS; at = at->list_next, looks++)
		if (at->size >= size && (best == NULL || at->size < best->size)) {
			best = at;
			if (at->size == size)
				break;
		}
	return best;
}

static struct vmem_segment *first_of_list(const struct vmem_list *list, size_t size)
{
	struct vmem_segment *at = list->first;

	while (at != NULL && at->size < size)
		at = at->list_next;
	return at;
}

// Segregated fit (2001, §4.4.2). Every segment of a list above the request's own is large enough.
static struct vmem_segment *fit(const struct vmem *arena, enum vmem_kind kind, size_t size)
{
	const struct vmem_list *lists = arena->lists[kind];
	unsigned own = list_index(arena, size);
	bool own_fits = own < VMEM_EXACT_LISTS || is_power_of_two(size >> arena->lg_quantum);
	struct vmem_segment *segment;
	unsigned next;

	if (!own_fits && arena->policy == VMEM_BESTFIT && (segment = best_of_list(&lists[own], size)) != NULL)
		return segment;
	next = list_from(arena, kind, own_fits ? own : own + 1);
	if (next == VMEM_LISTS)
		return own_fits ? NULL : first_of_list(&lists[own], size);
	return arena->policy == VMEM_BESTFIT ? best_of_list(&lists[next], size) : lists[next].first;
}

static struct vmem_segment *fit_constrained(const struct vmem *arena, enum vmem_kind kind, size_t size,
					    const struct vmem_constraint *constraint, uintptr_t *start)
{
	unsigned index = list_from(arena, kind, list_index(arena, size));

	for (; index < VMEM_LISTS; index = list_from(arena, kind, index + 1))
		for (struct vmem_segment *at = arena->lists[kind][index].first; at != NULL; at = at->list_next)
			if ((*start = placed(at->start, at->size, size, constraint, (size_t)1 << arena->lg_quantum)) != 0)
				return at;
	return NULL;
}

static struct vmem_piece take(struct vmem *arena, size_t size, const struct vmem_constraint *constraint)
{
	for (int kind = VMEM_DIRTY; kind >= VMEM_CLEAN; kind--) {
		uintptr_t start = 0;
		struct vmem_segment *segment;

		if (constraint == NULL) {
			segment = fit(arena, (enum vmem_kind)kind, size);
			start = segment == NULL ? 0 : segment->start;
		} else
			segment = fit_constrained(arena, (enum vmem_kind)kind, size, constraint, &start);
		if (segment != NULL) {
			carve(arena, segment, start, size);
			return (struct vmem_piece){ start, (enum vmem_kind)kind, segment->dirty };
		}
	}
	return (struct vmem_piece){ 0, VMEM_CLEAN, 0 };
}

// What the source's addresses are multiples of.
static size_t given_alignment(const struct vmem *arena)
{
	return arena->source == NULL ? 1 : (size_t)1 << arena->source->lg_quantum;
}

// Brings in a span that can hold the request. Constraints on place cannot be met by importing (2001, §4.3.3).
static bool import_span(struct vmem *arena, size_t size, const struct vmem_constraint *constraint)
{
	size_t slack = 0, span;
	uintptr_t start;

	if (arena->import == NULL)
		return false;
	if (constraint != NULL) {
		if (constraint->least != 0 || constraint->most != 0 || constraint->nocross != 0)
			return false;
		slack = constraint->phase + (constraint->align > given_alignment(arena) ? constraint->align : 0);
	}
	if (size > SIZE_MAX / 4 || slack > SIZE_MAX / 4)
		return false;
	span = round_up(size + slack, arena->import_unit);
	start = arena->import(arena->source, span);
	if (start == 0)
		return false;
	if (span_add(arena, start, span, true))
		return true;
	arena->release(arena->source, start, span);
	return false;
}

struct vmem_piece vmem_segment_xalloc(struct vmem *arena, size_t size, const struct vmem_constraint *constraint)
{
	struct vmem_piece none = { 0, VMEM_CLEAN, 0 };

	size = round_up(size, (size_t)1 << arena->lg_quantum);
	if (size == 0)
		return none;
	do {
		if (!lock_with_tags(arena))
			return none;
		struct vmem_piece piece = take(arena, size, constraint);
		bool crowded = hash_is_full(arena);

		mutex_unlock(&arena->lock);
		if (crowded)
			hash_grow(arena);
		if (piece.start != 0)
			return piece;
	} while (import_span(arena, size, constraint));
	return none;
}

struct vmem_piece vmem_segment_alloc(struct vmem *arena, size_t size)
{
	return vmem_segment_xalloc(arena, size, NULL);
}

static void become_free(struct vmem_segment *segment, enum vmem_kind kind)
{
	segment->type = SEGMENT_FREE;
	segment->kind = (uint8_t)kind;
	segment->dirty = kind == VMEM_DIRTY ? segment->size : 0;
}

// True when the free, clean segment is all of an imported span.
static bool is_whole_import(const struct vmem_segment *segment)
{
	return segment->kind == VMEM_CLEAN && segment->prev == segment->next && segment->prev->type == SEGMENT_SPAN &&
	       segment->prev->imported;
}

bool vmem_segment_free(struct vmem *arena, uintptr_t start, size_t size, enum vmem_kind kind)
{
	struct vmem_segment *segment, **at, *excess;
	uintptr_t returned = 0;
	size_t returned_size = 0;

	size = round_up(size, (size_t)1 << arena->lg_quantum);
	mutex_lock(&arena->lock);
	at = hash_find(arena, start);
	segment = *at;
	if (segment == NULL || segment->size != size) {
		mutex_unlock(&arena->lock);
		return false;
	}
	hash_remove(arena, at);
	become_free(segment, kind);
	coalesce(arena, segment);
	if (is_whole_import(segment)) {
		returned = segment->start;
		returned_size = segment->size;
		span_remove(arena, segment->prev, segment);
	} else
		list_insert(arena, segment);
	excess = tags_detach(arena);
	mutex_unlock(&arena->lock);
	tags_trim(excess);
	if (returned != 0)
		arena->release(arena->source, returned, returned_size);
	return true;
}

bool vmem_extend(struct vmem *arena, uintptr_t start, size_t size, size_t new_size, enum vmem_kind *kind)
{
	size_t quantum = (size_t)1 << arena->lg_quantum;
	bool done = false;

	size = round_up(size, quantum);
	new_size = round_up(new_size, quantum);
	if (!lock_with_tags(arena))
		return false;
	struct vmem_segment *segment = *hash_find(arena, start);
	struct vmem_segment *next = segment == NULL ? NULL : segment->next;

	if (segment != NULL && segment->size == size && next->type == SEGMENT_FREE && next->size >= new_size - size) {
		*kind = (enum vmem_kind)next->kind;
		carve(arena, next, next->start, new_size - size);
		hash_remove(arena, hash_find(arena, next->start));
		unlink_segment(next);
		tag_return(arena, next);
		segment->size = new_size;
		done = true;
	}
	mutex_unlock(&arena->lock);
	return done;
}

bool vmem_shrink(struct vmem *arena, uintptr_t start, size_t size, size_t new_size)
{
	size_t quantum = (size_t)1 << arena->lg_quantum;
	bool done = false;

	size = round_up(size, quantum);
	new_size = round_up(new_size, quantum);
	if (!lock_with(arena, 1))
		return false;
	struct vmem_segment *segment = *hash_find(arena, start);

	if (segment != NULL && segment->size == size && new_size < size) {
		struct vmem_segment *tail = segment_new(arena, start + new_size, size - new_size, segment);

		segment->size = new_size;
		become_free(tail, VMEM_DIRTY);
		coalesce(arena, tail);
		list_insert(arena, tail);
		done = true;
	}
	mutex_unlock(&arena->lock);
	return done;
}

void vmem_soil_next(struct vmem *arena, uintptr_t start, size_t most)
{
	if (!lock_with_tags(arena))
		return;
	struct vmem_segment *segment = *hash_find(arena, start);
	struct vmem_segment *next = segment == NULL ? NULL : segment->next;

	if (next != NULL && next->type == SEGMENT_FREE) {
		list_remove(arena, next);
		next->type = SEGMENT_ALLOC;
		if (next->size > most)
			split_off(arena, next, next->start + most, next->size - most, next);
		become_free(next, VMEM_DIRTY);
		coalesce(arena, next);
		list_insert(arena, next);
	}
	mutex_unlock(&arena->lock);
}

struct vmem_piece vmem_take_dirty(struct vmem *arena, size_t most, size_t *size)
{
	size_t apart = (size_t)VMEM_APART << arena->lg_quantum;
	struct vmem_piece piece = { 0, VMEM_DIRTY, 0 };

	if (!lock_with(arena, 1))
		return piece;
	unsigned last = list_last(arena, VMEM_DIRTY);

	if (last != VMEM_LISTS) {
		struct vmem_segment *segment = arena->lists[VMEM_DIRTY][last].first;

		// Neither part may be so small that it would join the other again.
		most = max_size(round_up(most, (size_t)1 << arena->lg_quantum), apart);
		*size = most < segment->size && segment->size - most >= apart ? most : segment->size;
		piece.start = segment->start + segment->size - *size;
		carve(arena, segment, piece.start, *size);
	}
	mutex_unlock(&arena->lock);
	return piece;
}

static void check_span(struct vmem *arena, struct vmem_segment *span, size_t *bytes, size_t *dirty, size_t *allocated)
{
	uintptr_t at = span->start;

	for (struct vmem_segment *s = span->next; s != span; s = s->next) {
		ALWAYS(s->start == at && s->size > 0 && s->next->prev == s);
		ALWAYS(s->type == SEGMENT_FREE || s->type == SEGMENT_ALLOC);
		if (s->type == SEGMENT_FREE) {
			bytes[s->kind] += s->size;
			*dirty += s->dirty;
			ALWAYS(!can_join(arena, s, s->next) && s->dirty <= s->size);
			ALWAYS(s->kind == VMEM_DIRTY || s->dirty == 0);
		} else {
			ALWAYS(*hash_find(arena, s->start) == s);
			++*allocated;
		}
		at += s->size;
	}
	ALWAYS(at == span->start + span->size);
}

static size_t list_bytes(const struct vmem *arena, enum vmem_kind kind)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < VMEM_LISTS; i++)
		for (const struct vmem_segment *s = arena->lists[kind][i].first; s != NULL; s = s->list_next) {
			ALWAYS(s->type == SEGMENT_FREE && s->kind == kind && list_index(arena, s->size) == i);
			bytes += s->size;
		}
	return bytes;
}

void vmem_check(struct vmem *arena)
{
	size_t bytes[VMEM_KINDS] = { 0 }, allocated = 0, total = 0, dirty = 0;

	mutex_lock(&arena->lock);
	for (struct vmem_segment *span = arena->spans; span != NULL; span = span->list_next) {
		check_span(arena, span, bytes, &dirty, &allocated);
		total += span->size;
	}
	ALWAYS(total == arena->total_bytes && allocated == arena->segments_allocated && dirty == arena->dirty_bytes);
	for (unsigned kind = 0; kind < VMEM_KINDS; kind++)
		ALWAYS(bytes[kind] == arena->bytes[kind] && bytes[kind] == list_bytes(arena, (enum vmem_kind)kind));
	mutex_unlock(&arena->lock);
}
