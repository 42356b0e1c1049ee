// Medium objects, beyond the table of the fast path and still kept in magazines or at hand: served first thing at a miss.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/counted.h"
#include "heap/front.h"
#include "heap/sampled.h"
#include "os/rseq.h"

// An object of more bytes than MAGAZINE_MOST from a run that is kept at hand; NULL: there is none, or the slow path is to do it.
void *medium_at_hand(size_t size);

// The other way round: of a large object of this thread's arena, by the page map. False: the slow path is to do it.
bool medium_keep(void *object, const void *caller);
static inline __attribute__((always_inline)) bool medium_may_keep(void *object)
{
	return UNLIKELY(page_map_word(object) == words.word) && LIKELY(words.front != NULL);
}

static inline bool medium_is(size_t size)
{
	return size - SMALL_MOST - 1 < MAGAZINE_MOST - SMALL_MOST;
}

static inline __attribute__((always_inline)) void *medium_take(unsigned class, void **top, void *object)
{
	words.top[class] = --top;
	*top = (void *)(uintptr_t)words.front->word[class];
	return object;
}

// What is the rule among them, before the rest: it takes no register that would have to be saved. `rest` does what this does not.
static inline __attribute__((always_inline)) void *medium_or(size_t size, void *(*rest)(size_t))
{
	if (!medium_is(size))
		return rest(size);
	unsigned class = size_class_large(size);
	void **top = words.top[class], *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object))) {
		object = counted_leads(object) && !front_sizes_closed() ? counted_pop_last(class) : NULL;
		return LIKELY(object != NULL) ? object : rest(size);
	}
	if (UNLIKELY(front_sizes_closed()) && !sampled_passes(size_class_bytes[class]))
		return rest(size);
	return medium_take(class, top, object);
}

// NULL: the size is another, or the slow path is to do it. While the door is closed, so are the words.
static inline __attribute__((always_inline)) void *medium_malloc(size_t size)
{
	if (!medium_is(size))
		return size > MAGAZINE_MOST ? medium_at_hand(size) : NULL;
	unsigned class = size_class_large(size);
	void **top = words.top[class], *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object)) && !counted_leads(object))
		return words.way != 0 && !front_sizes_closed() && rseq_pop((void ***)words.way, class, &object) ? object : NULL;
	if (UNLIKELY(front_sizes_closed()) && // what passes is counted: that comes last
	    ((counted_leads(object) && !counted_has_round(class)) || !sampled_passes(size_class_bytes[class])))
		return NULL;
	return counted_leads(object) ? counted_pop_last(class) : medium_take(class, top, object);
}
