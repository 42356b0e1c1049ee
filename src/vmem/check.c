// The invariants of a vmem arena, walked in whole.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/segment.h"

static void check_span(struct vmem *arena, struct vmem_segment *span, size_t *bytes, size_t *dirty, size_t *allocated)
{
	uintptr_t at = span->start;

	for (struct vmem_segment *s = span->next; s != span; s = s->next) {
		ALWAYS(s->start == at && s->size > 0 && s->next->prev == s);
		ALWAYS(s->type == SEGMENT_FREE || s->type == SEGMENT_ALLOC);
		if (s->type == SEGMENT_FREE) {
			bytes[s->kind] += s->size;
			*dirty += s->dirty;
			ALWAYS(!vmem_can_join(arena, s, s->next) && s->dirty <= s->size);
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
