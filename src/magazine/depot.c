// Depot: exchanging magazines, each under a lock held for a few instructions.
// SPDX-License-Identifier: BSD-2-Clause
#include "magazine/depot.h"

#include <stdatomic.h>

void depot_init(struct depot *depot)
{
	mutex_init(&depot->lock, RANK_DEPOT);
}

// By trylock first, so that contention can be counted (2001, §3.4).
static void lock(struct depot *depot)
{
	if (LIKELY(mutex_try_lock(&depot->lock)))
		return;
	mutex_lock(&depot->lock);
	depot->contentions++;
	COUNT(contentions);
}

static void unlock(struct depot *depot, _Atomic size_t *told)
{
	if (told != NULL)
		atomic_store_explicit(told, depot->rounds, memory_order_relaxed);
	mutex_unlock(&depot->lock);
}

static void push(struct magazine_list *list, struct magazine *magazine)
{
	magazine->next = list->first;
	list->first = magazine;
	list->length++;
}

static struct magazine *pop(struct magazine_list *list)
{
	struct magazine *magazine = list->first;

	if (magazine == NULL)
		return NULL;
	list->first = magazine->next;
	list->length--;
	if (list->length < list->least)
		list->least = list->length;
	return magazine;
}

// Its lines are with whoever has it: outside the lock, of which the counting build tells the contentions.
static void note_passing(const struct magazine *magazine)
{
	if (magazine != NULL)
		COUNT_LINES(magazine, magazine_bytes(magazine));
}

static void put(struct depot *depot, struct magazine *magazine)
{
	depot->rounds += magazine->rounds;
	depot->puts += magazine->rounds > 0;
	push(magazine->rounds > 0 ? &depot->full : &depot->empty, magazine);
}

// Which one will be taken, unless somebody is faster: its line is asked for before the lock is taken, and not waited for under it.
static struct magazine *first(const struct magazine_list *list)
{
	struct magazine *magazine = __atomic_load_n(&list->first, __ATOMIC_RELAXED);

	__builtin_prefetch(magazine, 1);
	return magazine;
}

struct magazine *depot_take_full(struct depot *depot, struct magazine *empty, _Atomic size_t *told)
{
	struct magazine *full = first(&depot->full);

	if (full == NULL)
		return NULL; // what comes at this moment is for the next one
	lock(depot);
	full = pop(&depot->full);
	if (full != NULL) {
		depot->rounds -= full->rounds;
		depot->takes++;
		COUNT(exchanges);
		if (empty != NULL)
			put(depot, empty);
	}
	unlock(depot, told);
	note_passing(full);
	return full;
}

struct magazine *depot_take_empty(struct depot *depot, struct magazine *full, _Atomic size_t *told)
{
	struct magazine *empty;

	note_passing(full);
	first(&depot->empty);
	lock(depot);
	COUNT(exchanges);
	put(depot, full);
	empty = pop(&depot->empty);
	unlock(depot, told);
	note_passing(empty);
	return empty;
}

bool depot_put_first(struct depot *depot, struct magazine *magazine, _Atomic size_t *told)
{
	bool is_first;

	lock(depot);
	is_first = depot->full.length == 0;
	if (is_first)
		put(depot, magazine);
	unlock(depot, told);
	return is_first;
}

void depot_put(struct depot *depot, struct magazine *magazine, _Atomic size_t *told)
{
	note_passing(magazine);
	lock(depot);
	COUNT(exchanges);
	put(depot, magazine);
	unlock(depot, told);
}

// Moves `count` magazines from the far end of the list, which were left longest ago, to a chain.
static struct magazine *cut_tail(struct magazine_list *list, uint32_t count, struct magazine *chain)
{
	struct magazine **at = &list->first, *tail;

	for (uint32_t keep = list->length - count; keep > 0; keep--)
		at = &(*at)->next;
	tail = *at;
	*at = NULL;
	list->length -= count;
	while (tail != NULL) {
		struct magazine *next = tail->next;

		tail->next = chain;
		chain = tail;
		tail = next;
	}
	return chain;
}

COLD struct magazine *depot_reap(struct depot *depot, bool everything, _Atomic size_t *told)
{
	struct magazine *chain = NULL;

	lock(depot);
	chain = cut_tail(&depot->full, everything ? depot->full.length : depot->full.least, chain);
	for (struct magazine *m = chain; m != NULL; m = m->next)
		depot->rounds -= m->rounds;
	chain = cut_tail(&depot->empty, everything ? depot->empty.length : depot->empty.least, chain);
	depot->full.least = depot->full.length;
	depot->empty.least = depot->empty.length;
	unlock(depot, told);
	return chain;
}
