// Segments and spans: cutting, joining, and the rings that keep them in address order.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/segment.h"

static void link_after(struct vmem_segment *segment, struct vmem_segment *before)
{
	segment->prev = before;
	segment->next = before->next;
	before->next->prev = segment;
	before->next = segment;
}

struct vmem_segment *vmem_segment_new(struct vmem *arena, uintptr_t start, size_t size, struct vmem_segment *before)
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

// Adds the free segment `other`, a neighbour, to one that is on no list; the caller sets the start.
void vmem_absorb(struct vmem *arena, struct vmem_segment *segment, struct vmem_segment *other)
{
	list_remove(arena, other);
	unlink_segment(other);
	cursors_leave(arena, other, segment);
	segment->size += other->size;
	segment->dirty += other->dirty;
	segment->kind |= other->kind;
	tag_return(arena, other);
}

static bool is_large(const struct vmem *arena, const struct vmem_segment *segment)
{
	return segment->size >= arena->apart;
}

bool vmem_can_join(const struct vmem *arena, const struct vmem_segment *segment, const struct vmem_segment *neighbour)
{
	return neighbour->type == SEGMENT_FREE &&
	       (neighbour->kind == segment->kind || !is_large(arena, segment) || !is_large(arena, neighbour));
}

void vmem_coalesce(struct vmem *arena, struct vmem_segment *segment)
{
	for (;;)
		if (vmem_can_join(arena, segment, segment->next))
			vmem_absorb(arena, segment, segment->next);
		else if (vmem_can_join(arena, segment, segment->prev)) {
			segment->start = segment->prev->start;
			vmem_absorb(arena, segment, segment->prev);
		} else
			return;
}

// Where the dirty bytes lie is not known. Memory is taken from the low end of segments, so what comes back joins what was never used
// from below: they are taken to lie at the low end.
static size_t dirty_share(const struct vmem_segment *segment, uintptr_t start, size_t size)
{
	size_t below = start - segment->start;

	return min_size(segment->dirty - min_size(segment->dirty, below), size);
}

void vmem_split_off(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size, struct vmem_segment *before)
{
	struct vmem_segment *part = vmem_segment_new(arena, start, size, before);
	size_t share = dirty_share(segment, start, size);

	part->kind = segment->kind;
	part->dirty = share;
	segment->dirty -= share;
	segment->size -= size;
	vmem_coalesce(arena, part);
	list_insert(arena, part);
}

void vmem_carve(struct vmem *arena, struct vmem_segment *segment, uintptr_t start, size_t size)
{
	list_remove(arena, segment);
	segment->type = SEGMENT_ALLOC; // not to be joined by what is split off
	if (start > segment->start) {
		vmem_split_off(arena, segment, segment->start, start - segment->start, segment->prev);
		segment->start = start;
	}
	if (segment->size > size)
		vmem_split_off(arena, segment, start + size, segment->size - size, segment);
	hash_insert(arena, segment);
}

struct vmem_segment *vmem_span_insert(struct vmem *arena, uintptr_t start, size_t size, bool imported)
{
	struct vmem_segment *span = tag_take(arena);

	span->type = SEGMENT_SPAN;
	span->start = start;
	span->size = size;
	span->imported = imported;
	span->prev = span->next = span;
	span->list_next = NULL;
	span->list_prev = arena->last_span;
	if (arena->last_span != NULL)
		arena->last_span->list_next = span;
	else
		arena->spans = span;
	arena->last_span = span;
	arena->total_bytes += size;
	arena->span_count++;
	if (imported) {
		arena->imports++;
		arena->imported_bytes += size;
	}
	list_insert(arena, vmem_segment_new(arena, start, size, span));
	return span;
}

void vmem_span_remove(struct vmem *arena, struct vmem_segment *span, struct vmem_segment *segment)
{
	if (span->list_prev != NULL)
		span->list_prev->list_next = span->list_next;
	else
		arena->spans = span->list_next;
	if (span->list_next != NULL)
		span->list_next->list_prev = span->list_prev;
	else
		arena->last_span = span->list_prev;
	cursors_leave(arena, segment, span->list_next);
	cursors_leave(arena, span, span->list_next);
	arena->total_bytes -= span->size;
	arena->span_count--;
	if (span->imported) {
		arena->releases++;
		arena->imported_bytes -= span->size;
	}
	tag_return(arena, segment);
	tag_return(arena, span);
}
