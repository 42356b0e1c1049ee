// What is done first at a miss: the fast path while sampling is on (heap/sampled.h), while the thread's exact counters are (heap/counted.h), or
// while fronts of processors serve.
//
// For the last the thread's words are closed, so each operation misses, comes here, and finds in `words.way` its processor's tops, on which
// one restartable sequence works. Threads of which anything else is wanted (heap/door.h) have no way and go on to the slow path, as does
// whatever the loaded magazine does not serve; the slow path also notices that the door is to be opened or closed for something else.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/counted.h"
#include "heap/cpu_front.h"
#include "heap/front.h"
#include "heap/sampled.h"
#include "os/rseq.h"
#include "pages/page_map.h"

#define CPU_FAST static inline __attribute__((always_inline))

// Comes first, but the other way is not to be laid out far away.
#define OFTENER(condition) __builtin_expect_with_probability(!!(condition), 1, 0.6)

// What the sizes are closed to goes to `sampled`, which may be inline: then a sampled hit is one jump away.
CPU_FAST void *cpu_fast_malloc(size_t size, void *(*sampled)(size_t), void *(*slow)(size_t))
{
	if (UNLIKELY(front_is_beyond(size)))
		return sampled(size);
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place), *lead = top[-1], *object;

	if (OFTENER(counted_leads(lead))) {
		object = counted_take(place, top, lead);
		return LIKELY(object != NULL) ? object : slow(size);
	}
	READ_AGAIN;
	void ***way = (void ***)words.way;

	return LIKELY(way != NULL) && LIKELY(rseq_pop(way, size_class_small[size], &object)) ? object : slow(size);
}

// Of any size, the fast path and what is done first where it is closed. NULL: a miss.
CPU_FAST void *cpu_fast_pop(size_t size)
{
	void *object = counted_or_fast_pop(size);

	return LIKELY(object != NULL) ? object : sampled_pop(size);
}

CPU_FAST bool cpu_fast_push(uintptr_t class, uintptr_t word, void *object)
{
	void ***way = (void ***)words.way;

	return LIKELY(way != NULL) && LIKELY(rseq_push(way, cpu_slot(way, class, word), object));
}

CPU_FAST void cpu_fast_free(void *object, void (*slow)(void *))
{
	size_t granule = granule_of(object);

	if (UNLIKELY(granule >= page_map_end)) {
		slow(object);
		return;
	}
	uintptr_t word = page_map[granule];
	void **top = words.top[word_class(word)];
	uintptr_t class = word_class(word); // apart, or gcc works it out anew for each use

	if (LIKELY(counted_closes(words.top[class])) ? !counted_push(top, word, object) : !cpu_fast_push(class, word, object))
		slow(object);
}

// The size must be the object's: the slow path reports one that is not.
CPU_FAST void cpu_fast_free_sized(void *object, size_t size, void (*slow)(void *, size_t))
{
	uintptr_t word = page_map_word(object), class = word_class(word);
	void **top = words.top[class];

	if (UNLIKELY(size > SMALL_MOST || size_class_small[size] != class) ||
	    (counted_closes(top) ? !counted_push(top, word, object) : !cpu_fast_push(class, word, object)))
		slow(object, size);
}
