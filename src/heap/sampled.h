// The fast path while sampling is on: what fast.h does, with each allocation counted down to the profile's next point.
//
// Each small class counts its allocations to points of its own, on words.until[class]; all else counts bytes on words.until[0].
//
// The sizes of the fast path are closed then (heap/front.h), so that malloc and sized free miss and come here first; the
// thread's words are as always, and free goes on as always: an object that was sampled lies where the page map's word is one that no
// magazine has. An allocation into which a point falls is left to the slow path, as is whatever the loaded magazine does not
// serve (docs/decisions/0010-sampling.md).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/fast.h"
#include "heap/front.h"

_Static_assert((int)PROFILE_LINES == (int)SMALL_CLASSES, "each small class has a line of its own");

#define SAMPLED_UNTIL(place) THREAD_AT(int64_t, (place) + (intptr_t)(offsetof(struct front_words, until) - offsetof(struct front_words, top)))

// Counts an allocation of what is no small class. False: a point falls into it, as heap_is_sampled will find, too.
static inline bool sampled_passes(size_t bytes)
{
	return LIKELY((words.until[0] -= (int64_t)bytes) >= 0);
}

// The first thing that malloc misses for then: `slow` does what this does not, and `hit` an allocation into which a point falls.
static inline __attribute__((always_inline)) void *sampled_malloc(size_t size, void *(*slow)(size_t), void *(*hit)(size_t))
{
	if (UNLIKELY(size >= FRONT_LIMIT(front_sampled_end)))
		return slow(size);
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place);
	void *next = top[-1];

	if (UNLIKELY(!magazine_is_round(next)))
		return slow(size);
	return UNLIKELY(--SAMPLED_UNTIL(place) < 0) ? hit(size) : fast_take(place, top, next, FAST_SAMPLED);
}

static inline void *sampled_nothing(size_t size)
{
	(void)size;
	return NULL;
}

// The object; NULL: the slow path is to do it.
static inline __attribute__((always_inline)) void *sampled_pop(size_t size)
{
	return sampled_malloc(size, sampled_nothing, sampled_nothing);
}

// The first thing that a sized free misses for then: what free does, by the page map, whatever its size. False: the slow path is to do it.
static inline __attribute__((always_inline)) bool sampled_push(void *object)
{
	size_t granule = granule_of(object);

	if (!front_sizes_closed() || UNLIKELY(granule >= page_map_end))
		return false;
	uintptr_t word = page_map[granule];
	void **top = words.top[word_class(word)];

	if (UNLIKELY((uintptr_t)*top != word))
		return false;
	*top = object;
	words.top[word_class(word)] = top + 1;
	return true;
}
