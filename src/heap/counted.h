// The second fast path: what fast.h does, bytes counted and events told, while the door is closed for sampling and traces.
//
// First thing at a miss, where it serves nearly all operations then. The tops are the front's own. Whatever is not the
// common case, and an allocation into which a point of the profile falls, is left to the slow path, which also notices
// that the door is to be opened or closed for something else: at the next point at the latest.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/door.h"
#include "heap/front.h"
#include "pages/page_map.h"
#include "watch/trace.h"

// Whether nothing else wants this thread's operations.
static inline bool counted_serves(uint8_t door)
{
	return UNLIKELY(door != 0) && (door & ~(DOOR_SAMPLE | DOOR_TRACE)) == 0;
}

// The object; NULL: the slow path is to do it.
static inline __attribute__((always_inline)) void *counted_malloc(size_t size)
{
	uint8_t door = words.door;

	if (!counted_serves(door) || size > SMALL_MOST)
		return NULL;
	struct front *front = words.front;
	uintptr_t class = size_class_table[size];
	int64_t until = front->profile.until - (door & DOOR_SAMPLE ? (int64_t)size_class_bytes[class] : 0);
	void **top = front->kept[class];
	void *object = top[-1];

	if (UNLIKELY(object == NULL || (until < 0 && door & DOOR_SAMPLE)))
		return NULL;
	front->profile.until = until;
	front->kept[class] = --top;
	*top = (void *)(front->word + class);
	if (door & DOOR_TRACE)
		trace_allocated(&front->tracer, object, size_class_bytes[class]);
	return object;
}

// False: the slow path is to do it.
static inline __attribute__((always_inline)) bool counted_free(void *object)
{
	size_t granule = granule_of(object);

	if (!counted_serves(words.door) || granule >= page_map_end)
		return false;
	struct front *front = words.front;
	uintptr_t word = page_map[granule];
	void **top = front->kept[word_class(word)];

	if (UNLIKELY((uintptr_t)*top != word))
		return false;
	if (words.door & DOOR_TRACE)
		trace_freed(&front->tracer, object);
	*top = object;
	front->kept[word_class(word)] = top + 1;
	return true;
}
