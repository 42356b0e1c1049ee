// Cursors: places in the walk through an arena that stay good while segments come and go.
//
// A cursor is an address and a tag near it. Tags change under it: one that leaves its ring hands its cursors on
// (vmem_cursors_leave_slow), one that is split leaves them where they are, and settling looks a few tags to either side.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/segment.h"

static void move_to_span(struct vmem_cursor *cursor, struct vmem_segment *span)
{
	cursor->at = span;
	cursor->address = span == NULL ? 0 : span->start;
}

void vmem_cursors_leave_slow(struct vmem *arena, const struct vmem_segment *tag, struct vmem_segment *to)
{
	for (struct vmem_cursor *cursor = arena->cursors; cursor != NULL; cursor = cursor->next)
		if (cursor->at == tag && (to == NULL || to->type == SEGMENT_SPAN))
			move_to_span(cursor, to);
		else if (cursor->at == tag)
			cursor->at = to;
}

// The segment of the cursor's span that holds its address; the marker when the address is the span's end.
static struct vmem_segment *settle(struct vmem_cursor *cursor)
{
	struct vmem_segment *at = cursor->at;

	while (at->type != SEGMENT_SPAN && at->start > cursor->address)
		at = at->prev;
	if (at->type == SEGMENT_SPAN)
		at = at->next;
	while (at->type != SEGMENT_SPAN && at->start + at->size <= cursor->address)
		at = at->next;
	return at;
}

static __thread char this_thread;

static void cursor_begin(struct vmem *arena, struct vmem_cursor *cursor, const void *owner)
{
	cursor->owner = owner;
	cursor->next = arena->cursors;
	arena->cursors = cursor;
	move_to_span(cursor, arena->spans);
}

struct vmem_segment *vmem_rotor_segment(struct vmem *arena, uintptr_t *from)
{
	struct vmem_cursor *rotor = &arena->rotor;
	struct vmem_segment *at;

	if (!arena->rotor_used) {
		arena->rotor_used = true;
		cursor_begin(arena, rotor, NULL);
	}
	if (rotor->at == NULL)
		move_to_span(rotor, arena->spans);
	at = settle(rotor);
	if (at->type != SEGMENT_SPAN) {
		*from = rotor->address;
		return rotor->at = at;
	}
	// At its span's end. It stays there: spans may come between.
	at = (at->list_next == NULL ? arena->spans : at->list_next)->next;
	*from = at->start;
	return at;
}

void vmem_walk_begin(struct vmem *arena, struct vmem_cursor *cursor)
{
	mutex_lock(&arena->lock);
	cursor_begin(arena, cursor, &this_thread);
	mutex_unlock(&arena->lock);
}

// A cursor at a marker has not told the span yet. What lies before its address was told already. An allocated segment that reaches from there beyond it was
// made meanwhile, and is passed over: the rest of it would be none that can be freed.
bool vmem_walk_next(struct vmem *arena, struct vmem_cursor *cursor, struct vmem_range *range)
{
	struct vmem_segment *at;

	mutex_lock(&arena->lock);
	at = cursor->at;
	if (at != NULL && at->type != SEGMENT_SPAN) {
		at = settle(cursor);
		if (at->type == SEGMENT_ALLOC && at->start < cursor->address) {
			cursor->address = at->start + at->size;
			at = at->next;
		}
		if (at->type == SEGMENT_SPAN)
			move_to_span(cursor, at = at->list_next);
	}
	if (at != NULL && at->type == SEGMENT_SPAN) {
		*range = (struct vmem_range){ at->start, at->size, 0, VMEM_SEGMENT_SPAN };
		cursor->at = at->next;
	} else if (at != NULL) {
		uintptr_t end = at->start + at->size;

		*range = (struct vmem_range){ cursor->address, end - cursor->address, at->type == SEGMENT_ALLOC ? at->dirty : 0, (enum vmem_segment_type)at->type };
		range->unused = min_size(range->unused, range->size);
		cursor->at = at;
		cursor->address = end;
	}
	mutex_unlock(&arena->lock);
	return at != NULL;
}

void vmem_walk_end(struct vmem *arena, struct vmem_cursor *cursor)
{
	struct vmem_cursor **at = &arena->cursors;

	mutex_lock(&arena->lock);
	while (*at != cursor)
		at = &(*at)->next;
	*at = cursor->next;
	mutex_unlock(&arena->lock);
}

void vmem_cursors_forget_others(struct vmem *arena)
{
	for (struct vmem_cursor **at = &arena->cursors; *at != NULL;)
		if ((*at)->owner != NULL && (*at)->owner != &this_thread)
			*at = (*at)->next;
		else
			at = &(*at)->next;
}
