// Missed: what is tried before the slow path, for whoever missed the fast one.
//
// The commonest miss is exchanged: in a small class of a thread whose door is open, the previous magazine has what the loaded one lacks.
// What is hit takes 15 instructions; of what misses most does nothing but this where magazines are small, as those of many threads are. So it is
// done before anything else is asked.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/fast.h"
#include "heap/front.h"
#include "heap/medium.h"
#include "heap/traced.h"
#include "pages/page_map.h"

// NULL: the slow path is to do it. While sampling is on it counts what is allocated.
static inline __attribute__((always_inline)) void *exchanged_malloc(size_t size)
{
	struct front *front = words.front;

	if (size > SMALL_MOST || front == NULL || !front_exchange_for_rounds(front, size_class_small[size]))
		return NULL;
	return fast_pop(size);
}

// False: the slow path is to do it.
static inline __attribute__((always_inline)) bool exchanged_free(void *object)
{
	uintptr_t word = page_map_word(object);
	unsigned class = word_class(word);
	struct front *front = words.front;

	return class - 1 < SMALL_CLASSES - 1 && front != NULL && word == front_word(front, class) && front_exchange_and_put(front, class, object);
}

// NULL: the slow path is to do it.
static inline __attribute__((always_inline)) void *missed_malloc(size_t size)
{
	void *object = medium_malloc(size);

	if (object == NULL)
		object = exchanged_malloc(size);
	return object != NULL ? object : traced_malloc(size);
}
