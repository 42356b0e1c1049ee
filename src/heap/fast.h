// The fast path: malloc, free and sized free while the loaded magazine serves them.
//
// One exit each, the miss; whatever is not the common case lives behind it (design, idea 3). The instructions are counted
// by a test (tests/house/fast_path.golden): this file does not change its shape.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"
#include "heap/heap.h"
#include "pages/page_map.h"

// Keeps the compiler from sharing the work for an address, or a value read, between two places: each is then one instruction.
#define OPAQUE(value) __asm__("" : "+r"(value))
#define READ_AGAIN __asm__ volatile("" ::: "memory")

static inline __attribute__((always_inline)) void *fast_malloc(size_t size, void *(*miss)(size_t))
{
	if (UNLIKELY(size > SMALL_MOST))
		return miss(size);
	uintptr_t class = size_class_table[size];
	void **top = words.top[class];
	void *next = top[-1];

	if (UNLIKELY(!magazine_is_round(next)))
		return miss(size);
	OPAQUE(class);
	void *object = words.ahead[class];
	READ_AGAIN;
	OPAQUE(class);
	words.top[class]--; // first: who is left in between, by a handler's longjmp, loses a round and has none twice
	READ_AGAIN;
	words.ahead[class] = next;
	READ_AGAIN;
	top[-1] = (void *)(words.word + class);
	OPAQUE(object);
	if (object == NULL)
		__builtin_unreachable(); // so that callers need not ask
	return object;
}

// The object freed last, for the functions whose users look for it (jemalloc's own tests do): the one ahead stays.
static inline __attribute__((always_inline)) void *fast_malloc_last(size_t size, void *(*miss)(size_t))
{
	if (UNLIKELY(size > SMALL_MOST))
		return miss(size);
	uintptr_t class = size_class_table[size];
	void **top = words.top[class];
	void *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object)))
		return miss(size);
	words.top[class] = --top;
	*top = (void *)(words.word + class);
	return object;
}

static inline __attribute__((always_inline)) void fast_free(void *object, void (*miss)(void *))
{
	size_t granule = granule_of(object);

	if (UNLIKELY(granule >= page_map_end)) {
		miss(object);
		return;
	}
	uintptr_t word = page_map[granule];
	void **top = words.top[word_class(word)];

	if (UNLIKELY((uintptr_t)*top != word)) {
		miss(object);
		return;
	}
	*top = object;
	words.top[word_class(word)] = top + 1;
}

static inline __attribute__((always_inline)) void fast_free_sized(void *object, size_t size, void (*miss)(void *, size_t))
{
	if (UNLIKELY(size > SMALL_MOST)) {
		miss(object, size);
		return;
	}
	unsigned class = size_class_table[size];
	void **top = words.top[class];

	if (UNLIKELY((intptr_t)*top <= 0)) { // full or closed
		miss(object, size);
		return;
	}
	*top = object;
	words.top[class] = top + 1;
}
