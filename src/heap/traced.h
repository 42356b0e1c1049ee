// The second fast path: what fast.h does, and events told, while the door is closed for the event trace, and for exact counters at most besides, as it
// is in programs with operators of their own.
//
// First thing at a miss, where it serves nearly all operations then. The tops are the front's own. Whatever is not the
// common case, and an allocation into which a point of the profile falls, is left to the slow path, which also notices
// that the door is to be opened or closed for something else.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/door.h"
#include "heap/front.h"
#include "heap/sampled.h"
#include "pages/page_map.h"
#include "watch/trace.h"

static inline __attribute__((always_inline)) bool traced_is_on(void)
{
	return UNLIKELY((words.door & ~DOOR_COUNT) == DOOR_TRACE);
}

// The object; NULL: the slow path is to do it.
static inline __attribute__((always_inline)) void *traced_malloc(size_t size)
{
	if (!traced_is_on() || size > SMALL_MOST)
		return NULL;
	struct front *front = words.front;
	uintptr_t class = size_class_small[size];
	void **top = front->kept[class];
	void *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object) || atomic_load_explicit(&front->door_wanted, memory_order_relaxed) != words.door) ||
	    (front_sizes_closed() && --words.until[class] < 0))
		return NULL;
	front->kept[class] = --top;
	*top = (void *)words.empty[class];
	if (words.door & DOOR_COUNT)
		front->allocated += front->bytes[class];
	trace_allocated(&front->tracer, object, size_class_bytes[class]);
	return object;
}

// False: the slow path is to do it.
static inline __attribute__((always_inline)) bool traced_free(void *object)
{
	size_t granule = granule_of(object);

	if (!traced_is_on() || granule >= page_map_end)
		return false;
	struct front *front = words.front;
	uintptr_t word = page_map[granule];
	void **top = front->kept[word_class(word)];

	if (UNLIKELY((uintptr_t)*top != word))
		return false;
	if (words.door & DOOR_COUNT)
		front->freed += front->bytes[word_class(word)];
	trace_freed(&front->tracer, object);
	*top = object;
	front->kept[word_class(word)] = top + 1;
	return true;
}
