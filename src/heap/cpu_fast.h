// What is done first at a miss. The fast path while sampling is on (heap/sampled.h); or while the door is closed for one thing alone: fronts of processors serve, or the thread's exact counters are on.
//
// A thread's words are then closed, so each operation misses, comes here, and finds in `words.way` which of the two it is: one
// restartable sequence, or what fast.h does on the front's own tops, with its bytes added. Threads of which anything else is
// wanted (heap/door.h) have no way and go on to the slow path, as does whatever the loaded magazine does not serve; the
// slow path also notices that the door is to be opened or closed for something else.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/cpu_front.h"
#include "heap/front.h"
#include "heap/sampled.h"
#include "os/rseq.h"
#include "pages/page_map.h"

#define CPU_FAST static inline __attribute__((always_inline))

CPU_FAST void *tallied_pop(struct front *front, uintptr_t class)
{
	void **top = front->kept[class];
	void *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object)))
		return NULL;
	front->allocated += size_class_bytes[class];
	front->kept[class] = --top;
	*top = (void *)(front->word + class);
	return object;
}

CPU_FAST bool tallied_push(struct front *front, uintptr_t word, void *object)
{
	void **top = front->kept[word_class(word)];

	if (UNLIKELY((uintptr_t)*top != word))
		return false;
	front->freed += size_class_bytes[word_class(word)];
	*top = object;
	front->kept[word_class(word)] = top + 1;
	return true;
}

// What the sizes are closed to goes to `sampled`, which may be inline: then a sampled hit is one jump away.
CPU_FAST void *cpu_fast_malloc(size_t size, void *(*sampled)(size_t), void *(*slow)(size_t))
{
	if (UNLIKELY(front_is_beyond(size)))
		return sampled(size);
	uintptr_t class = size_class_small[size];
	READ_AGAIN;
	intptr_t way = words.way;
	void *object;

	if (LIKELY(way > 0))
		return LIKELY(rseq_pop((void ***)way, class, &object)) ? object : slow(size);
	object = way < 0 ? tallied_pop((struct front *)-way, class) : NULL;
	return LIKELY(object != NULL) ? object : slow(size);
}

CPU_FAST bool cpu_fast_push(intptr_t way, void *object)
{
	uintptr_t word = page_map_word(object);

	if (LIKELY(way > 0))
		return LIKELY(rseq_push((void ***)way, cpu_slot((void ***)way, word), object));
	return way < 0 && tallied_push((struct front *)-way, word, object);
}

CPU_FAST void cpu_fast_free(void *object, void (*slow)(void *))
{
	if (UNLIKELY(!cpu_fast_push(words.way, object)))
		slow(object);
}

// The size must be the object's: the slow path reports one that is not.
CPU_FAST void cpu_fast_free_sized(void *object, size_t size, void (*slow)(void *, size_t))
{
	if (sampled_push(object))
		return;
	if (UNLIKELY(size > SMALL_MOST || size_class_small[size] != word_class(page_map_word(object)) || !cpu_fast_push(words.way, object)))
		slow(object, size);
}
