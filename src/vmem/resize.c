// What the heap's page runs need of a vmem arena beyond allocating and freeing: growing, shrinking, dirt.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/segment.h"

enum { NEIGHBOUR_LOOKS = 32 };

// Whether that much is free behind a segment: large neighbours of different kinds are two.
static bool is_free_behind(const struct vmem_segment *segment, size_t size)
{
	size_t found = 0;

	for (segment = segment->next; segment->type == SEGMENT_FREE && found < size; segment = segment->next)
		found += segment->size;
	return found >= size;
}

// Adds the first `size` bytes of the free neighbour behind to an allocated segment.
static void take_behind(struct vmem *arena, struct vmem_segment *segment, size_t size)
{
	struct vmem_segment *next = segment->next;

	vmem_carve(arena, next, next->start, size);
	hash_remove(arena, hash_find(arena, next->start));
	unlink_segment(next);
	cursors_leave(arena, next, segment);
	tag_return(arena, next);
	segment->size += size;
}

struct vmem_piece vmem_extend(struct vmem *arena, uintptr_t start, size_t size, size_t new_size)
{
	size_t quantum = (size_t)1 << arena->lg_quantum;
	struct vmem_piece piece = { 0, VMEM_CLEAN, 0 };

	size = round_up(size, quantum);
	new_size = round_up(new_size, quantum);
	if (!lock_with_tags(arena, TAGS_NEEDED))
		return piece;
	struct vmem_segment *segment = *hash_find(arena, start);

	if (segment != NULL && segment->size == size && is_free_behind(segment, new_size - size)) {
		piece = (struct vmem_piece){ start + size, VMEM_CLEAN, arena->dirty_bytes };
		while (segment->size < new_size) {
			piece.kind |= segment->next->kind;
			take_behind(arena, segment, min_size(segment->next->size, new_size - segment->size));
		}
		piece.dirty -= arena->dirty_bytes;
	}
	mutex_unlock(&arena->lock);
	return piece;
}

// The free segment that begins `size` bytes of free neighbours of which at least one is dirty, as those that a part was purged of have; NULL: none
// among the first few. Only large segments have such neighbours.
static struct vmem_segment *first_of_neighbours(struct vmem *arena, size_t size)
{
	unsigned list = list_index(arena, arena->apart);
	int looks = 0;

	for (; (list = list_from(arena, VMEM_DIRTY, list)) != VMEM_LISTS; list++)
		for (struct vmem_segment *at = arena->lists[VMEM_DIRTY][list].first; at != NULL; at = at->list_next) {
			if (is_free_behind(at->prev, size))
				return at;
			if (at->prev->type == SEGMENT_FREE && is_free_behind(at->prev->prev, size))
				return at->prev;
			if (++looks == NEIGHBOUR_LOOKS)
				return NULL;
		}
	return NULL;
}

struct vmem_piece vmem_take_neighbours(struct vmem *arena, size_t size)
{
	struct vmem_piece piece = { 0, VMEM_DIRTY, 0 };
	struct vmem_segment *segment = first_of_neighbours(arena, size);

	if (segment == NULL)
		return piece;
	vmem_carve(arena, segment, segment->start, min_size(segment->size, size));
	piece.start = segment->start;
	piece.dirty = segment->dirty;
	while (segment->size < size) {
		piece.dirty += min_size(segment->next->dirty, size - segment->size);
		take_behind(arena, segment, min_size(segment->next->size, size - segment->size));
	}
	arena->allocs++;
	return piece;
}

bool vmem_shrink(struct vmem *arena, uintptr_t start, size_t size, size_t new_size)
{
	size_t quantum = (size_t)1 << arena->lg_quantum;
	bool done = false;

	size = round_up(size, quantum);
	new_size = round_up(new_size, quantum);
	if (!lock_with_tags(arena, 1))
		return false;
	struct vmem_segment *segment = *hash_find(arena, start);

	if (segment != NULL && segment->size == size && new_size < size) {
		struct vmem_segment *tail = vmem_segment_new(arena, start + new_size, size - new_size, segment);

		segment->size = new_size;
		become_free(tail, VMEM_DIRTY);
		vmem_coalesce(arena, tail);
		list_insert(arena, tail);
		done = true;
	}
	mutex_unlock(&arena->lock);
	return done;
}

bool vmem_cut(struct vmem *arena, uintptr_t start, size_t first)
{
	bool done = false;

	if (!lock_with_tags(arena, 1))
		return false;
	struct vmem_segment *segment = *hash_find(arena, start);

	if (segment != NULL && first < segment->size) {
		hash_insert(arena, vmem_segment_new(arena, start + first, segment->size - first, segment));
		segment->size = first;
		arena->allocs++;
		done = true;
	}
	mutex_unlock(&arena->lock);
	return done;
}

void vmem_soil_next(struct vmem *arena, uintptr_t start, size_t most)
{
	if (!lock_with_tags(arena, TAGS_NEEDED))
		return;
	struct vmem_segment *segment = *hash_find(arena, start);
	struct vmem_segment *next = segment == NULL ? NULL : segment->next;

	if (next != NULL && next->type == SEGMENT_FREE) {
		list_remove(arena, next);
		next->type = SEGMENT_ALLOC;
		if (next->size > most)
			vmem_split_off(arena, next, next->start + most, next->size - most, next);
		become_free(next, VMEM_DIRTY);
		vmem_coalesce(arena, next);
		list_insert(arena, next);
	}
	mutex_unlock(&arena->lock);
}

struct vmem_piece vmem_take_dirty(struct vmem *arena, size_t most, size_t *size)
{
	struct vmem_piece piece = { 0, VMEM_DIRTY, 0 };

	if (!lock_with_tags(arena, 1))
		return piece;
	unsigned last = list_last(arena, VMEM_DIRTY);

	if (last != VMEM_LISTS) {
		struct vmem_segment *segment = arena->lists[VMEM_DIRTY][last].first;

		// Neither part may be so small that it would join the other again.
		most = max_size(round_up(most, (size_t)1 << arena->lg_quantum), arena->apart);
		*size = most < segment->size && segment->size - most >= arena->apart ? most : segment->size;
		piece.start = segment->start + segment->size - *size;
		vmem_carve(arena, segment, piece.start, *size);
	}
	mutex_unlock(&arena->lock);
	return piece;
}
