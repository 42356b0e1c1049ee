// The fast path: malloc, free and sized free while the loaded magazine serves them.
//
// One exit each, the miss; whatever is not the common case lives behind it (design, idea 3). The instructions are counted
// by a test (tests/house/fast_path.golden): this file does not change its shape.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"
#include "heap/heap.h"
#include "pages/page_map.h"
#include "util/thread.h"

// A word of the class at that place.
#define FAST_TOP(place) THREAD_AT(void **, place)
#define FAST_AHEAD(place) THREAD_AT(void *, (place) + (intptr_t)(offsetof(struct front_words, ahead) - offsetof(struct front_words, top)))
#define FAST_EMPTY(place) (void *)THREAD_AT(uintptr_t, (place) + (intptr_t)(offsetof(struct front_words, empty) - offsetof(struct front_words, top)))

// Keeps the compiler from sharing the work for an address, or a value read, between two places: each is then one instruction.
#define OPAQUE(value) __asm__("" : "+r"(value))
#define READ_AGAIN __asm__ volatile("" ::: "memory")

// What a hit does: gives out the round ahead and puts `next`, the uppermost one below `top`, in its place. Of each `way` that leads here the
// compiler makes code of its own, without a jump.
enum fast_way { FAST_OPEN, FAST_SAMPLED };
static inline __attribute__((always_inline)) void *fast_take(intptr_t place, void **top, void *next, enum fast_way way)
{
	__builtin_prefetch(next, 1); // the program will write to it soon
	void *object = FAST_AHEAD(place);
	READ_AGAIN;
	FAST_TOP(place)--; // first: who is left in between, by a handler's longjmp, loses a round and has none twice
	READ_AGAIN;
	FAST_AHEAD(place) = next;
	READ_AGAIN;
	top[-1] = FAST_EMPTY(place);
	OPAQUE(object);
	__asm__ volatile("" : : "i"(way));
	if (object == NULL)
		__builtin_unreachable(); // so that callers need not ask
	return object;
}

// Of a size that the fast path serves; NULL: a miss.
static inline __attribute__((always_inline)) void *fast_pop_served(size_t size)
{
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place);
	void *next = top[-1];

	return UNLIKELY(!magazine_is_round(next)) ? NULL : fast_take(place, top, next, FAST_OPEN);
}

static inline __attribute__((always_inline)) void *fast_pop(size_t size)
{
	return UNLIKELY(front_is_beyond(size)) ? NULL : fast_pop_served(size);
}

static inline __attribute__((always_inline)) void *fast_malloc(size_t size, void *(*miss)(size_t))
{
	void *object = fast_pop(size);

	return UNLIKELY(object == NULL) ? miss(size) : object;
}

// The object freed last, for the functions whose users look for it (jemalloc's own tests do): the one ahead stays.
static inline __attribute__((always_inline)) void *fast_malloc_last(size_t size, void *(*miss)(size_t))
{
	if (UNLIKELY(front_is_beyond(size)))
		return miss(size);
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place);
	void *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object)))
		return miss(size);
	FAST_TOP(place) = --top;
	*top = FAST_EMPTY(place);
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

static inline __attribute__((always_inline)) void fast_free_sized_served(void *object, size_t size, void (*miss)(void *, size_t))
{
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place);

	if (UNLIKELY((intptr_t)*top <= 0)) { // full or closed
		miss(object, size);
		return;
	}
	*top = object;
	FAST_TOP(place) = top + 1;
}

static inline __attribute__((always_inline)) void fast_free_sized(void *object, size_t size, void (*miss)(void *, size_t))
{
	if (UNLIKELY(front_is_beyond(size)))
		miss(object, size);
	else
		fast_free_sized_served(object, size, miss);
}
