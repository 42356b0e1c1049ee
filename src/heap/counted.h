// The fast path while the door is closed for the thread's exact counters alone: what fast.h does on the front's own tops, with bytes added.
//
// The thread's words point then into a closed magazine of its front's. So each operation misses, and finds on the spot, in what it has read
// already, that it is this and no other miss, and where the top of its class is:
//
//   front:   kept[class] …   bytes[class] …   [ NULL ][ lead ][ COUNTED ]   allocated   freed
//                                                              ▲ each word
//
// A lead is negative, so no round: the distance of the words from the thread pointer less the address of kept. A word that an allocation has
// counted down while the door was being closed has NULL below it and leads nowhere. As on open words the next round of a small class is
// ahead of its magazine. Whatever the loaded magazine does not serve is left to the slow path (docs/decisions/0021).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/fast.h"
#include "heap/front.h"

#define COUNTED_FAST static inline __attribute__((always_inline))

// Whether that is what lies below and at a word of such a thread.
COUNTED_FAST bool counted_leads(void *lead)
{
	return (intptr_t)lead < (intptr_t)MAGAZINE_GAP;
}

COUNTED_FAST bool counted_closes(void **top)
{
	READ_AGAIN;
	return *top == FRONT_COUNTED;
}

COUNTED_FAST struct front *counted_front(void **top)
{
	return (struct front *)(void *)((char *)top - offsetof(struct front, counted[FRONT_COUNTED_TOP]));
}

// Of the class whose word is at that place.
COUNTED_FAST void ***counted_kept(intptr_t place, void *lead)
{
	return (void ***)(place - (intptr_t)lead);
}

COUNTED_FAST uint64_t counted_bytes(void ***kept)
{
	return *(uint64_t *)(void *)((char *)kept + offsetof(struct front, bytes));
}

// As fast_take, of what malloc missed in. NULL: the magazine is empty.
COUNTED_FAST void *counted_take(intptr_t place, void **closed, void *lead)
{
	void ***kept = counted_kept(place, lead), **top = *kept, *next = top[-1];

	if (UNLIKELY(!magazine_is_round(next)))
		return NULL;
	__builtin_prefetch(next, 1);
	counted_front(closed)->allocated += counted_bytes(kept); // here: further down it holds up what follows
	void *object = FAST_AHEAD(place);
	READ_AGAIN;
	(*kept)--;
	READ_AGAIN;
	FAST_AHEAD(place) = next;
	READ_AGAIN;
	top[-1] = FAST_EMPTY(place);
	OPAQUE(object);
	if (object == NULL)
		__builtin_unreachable(); // so that callers need not ask
	return object;
}

// Of a size that the fast path has missed. NULL: it is another miss.
COUNTED_FAST void *counted_pop(size_t size)
{
	if (UNLIKELY(front_is_beyond(size)))
		return NULL;
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place), *lead = top[-1];

	return LIKELY(counted_leads(lead)) ? counted_take(place, top, lead) : NULL;
}

COUNTED_FAST void *counted_or_fast_pop(size_t size)
{
	void *object = fast_pop(size);

	return LIKELY(object != NULL) ? object : counted_pop(size);
}

// Whether the magazine of a class of a counted thread has one.
COUNTED_FAST bool counted_has_round(uintptr_t class)
{
	return magazine_is_round(words.front->kept[class][-1]);
}

// Of any class, from the magazine: also what mallocx, whose users look for the object freed last, has missed. NULL: the magazine is empty.
COUNTED_FAST void *counted_pop_last(uintptr_t class)
{
	struct front *front = words.front;
	void **top = front->kept[class], *object = top[-1];

	if (UNLIKELY(!magazine_is_round(object)))
		return NULL;
	front->allocated += front->bytes[class];
	front->kept[class] = --top;
	*top = (void *)(uintptr_t)front->word[class];
	return object;
}

// Of an object with that word in the page map, whose free has missed in `closed`. False: there is no room, or it is another arena's.
COUNTED_FAST bool counted_push(void **closed, uintptr_t word, void *object)
{
	struct front *front = counted_front(closed);
	void **top = front->kept[word_class(word)];

	if (UNLIKELY((uintptr_t)*top != word))
		return false;
	front->freed += front->bytes[word_class(word)];
	*top = object;
	front->kept[word_class(word)] = top + 1;
	return true;
}

// Of one whose sized free has missed, of a size that the fast path serves; it is believed as in fast.h. False: it is another miss.
COUNTED_FAST bool counted_push_served(void *object, size_t size)
{
	intptr_t place = front_places[size];
	void **top = FAST_TOP(place);

	if (UNLIKELY(!counted_closes(top) || object == NULL))
		return false;
	struct front *front = counted_front(top);
	void ***kept = counted_kept(place, top[-1]);

	top = *kept;
	if (UNLIKELY((intptr_t)*top <= 0))
		return false;
	front->freed += counted_bytes(kept);
	*top = object;
	*kept = top + 1;
	return true;
}

COUNTED_FAST bool counted_push_sized(void *object, size_t size)
{
	return LIKELY(!front_is_beyond(size)) && counted_push_served(object, size);
}
