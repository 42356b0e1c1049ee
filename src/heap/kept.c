// Kept runs: putting, taking, and giving up what is not wanted.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/kept.h"

#include <stdatomic.h>

#include "heap/large.h"
#include "os/pages.h"

enum {
	KEPT_FLOOR = 256 * 1024, // bytes that an arena and its fronts (heap/own_runs.h) may keep in any case
	LG_KEPT_PROPORTION = 5,  // and of its active bytes
};

static struct run *next_of(struct run *run)
{
	return (struct run *)run->node.next; // its first member
}

static size_t pages_of(size_t bytes)
{
	return (bytes + os_page_size() - 1) / os_page_size();
}

// Of a class size that has a slot. What goes in magazines is here only when it was sampled.
static struct run *_Atomic *slot_for(struct arena *arena, size_t bytes)
{
	if (bytes <= MAGAZINE_MOST)
		return &arena->kept[KEPT_SIZES + pages_of(bytes) - 1];
	return &arena->kept[size_class_large(bytes) - CLASSES];
}

static bool has_slot(size_t bytes)
{
	return bytes <= KEPT_MOST;
}

static bool is_room(const struct arena *arena, size_t bytes)
{
	size_t kept = atomic_load_explicit(&arena->pages.kept_bytes, memory_order_relaxed) +
		      atomic_load_explicit(&arena->own_room, memory_order_relaxed) + bytes;

	return kept <= KEPT_FLOOR || kept <= KEPT_FLOOR + (pages_active_bytes(&arena->pages) >> LG_KEPT_PROPORTION);
}

// Not in explicit arenas, whose reset knows all their runs; nor what hooks gave.
bool kept_may(const struct arena *arena)
{
	return !arena->is_explicit && extents_are_zero(&arena->pages.extents) && pages_decay_ms(&arena->pages) != 0;
}

bool kept_wants(const struct arena *arena, size_t bytes)
{
	return has_slot(bytes) && is_room(arena, bytes) && kept_may(arena);
}

// Those behind one another that were sampled, or one.
static void give(struct arena *arena, struct run *run)
{
	struct run *next;

	for (; run != NULL; run = next) {
		next = next_of(run);
		kept_count(arena, run->bytes, false);
		large_release(run);
	}
}

static void prepare(struct arena *arena, struct run *run)
{
	run->taken = true;
	run->sample = 0;
	run->node.next = NULL;
	kept_count(arena, run->bytes, true);
}

// The one freed last is most likely in the processor's cache: it takes the place of the one before.
static void put(struct arena *arena, struct run *run, struct run *_Atomic *slot)
{
	prepare(arena, run);
	give(arena, atomic_exchange_explicit(slot, run, memory_order_acq_rel));
}

// Before those that are there, which go all at once or not: so none of them is gone and there again meanwhile.
static void push(struct arena *arena, struct run *run, struct run *_Atomic *slot)
{
	struct run *first = atomic_load_explicit(slot, memory_order_relaxed);

	prepare(arena, run);
	do
		run->node.next = first == NULL ? NULL : &first->node;
	while (!atomic_compare_exchange_weak_explicit(slot, &first, run, memory_order_release, memory_order_relaxed));
}

void kept_put(struct arena *arena, struct run *run)
{
	if (run->bytes <= MAGAZINE_MOST)
		push(arena, run, slot_for(arena, run->bytes));
	else
		put(arena, run, slot_for(arena, run->bytes));
}

void kept_put_class(struct arena *arena, struct run *run, unsigned class)
{
	put(arena, run, &arena->kept[class - CLASSES]);
}

// Where another thread was quicker, what it put there stays, and these are given.
static bool put_back(struct arena *arena, struct run *first, struct run *_Atomic *slot)
{
	struct run *none = NULL;

	if (first == NULL || atomic_compare_exchange_strong_explicit(slot, &none, first, memory_order_release, memory_order_relaxed))
		return false;
	give(arena, first);
	return true;
}

struct run *kept_take(struct arena *arena, size_t bytes)
{
	struct run *_Atomic *slot = has_slot(bytes) ? slot_for(arena, bytes) : NULL;
	struct run *run = slot == NULL ? NULL : kept_take_from(arena, slot);

	if (run == NULL)
		return NULL;
	put_back(arena, next_of(run), slot);
	run->bytes = bytes;
	return run;
}

// Those that were put since the last call, which are the first ones; NULL: none. They are not new any more. `rest`: the others.
static struct run *part(struct run *first, struct run **rest)
{
	struct run *last = NULL;

	for (*rest = first; *rest != NULL && (*rest)->taken; *rest = next_of(last)) {
		last = *rest;
		last->taken = false;
	}
	if (last != NULL)
		last->node.next = NULL;
	return last == NULL ? NULL : first;
}

// Runs that were put since the last call stay for another one, unless newer ones took their place.
static bool give_slot(struct arena *arena, struct run *_Atomic *slot, bool all)
{
	struct run *first, *rest;
	bool given;

	if (atomic_load_explicit(slot, memory_order_relaxed) == NULL)
		return false;
	rest = atomic_exchange_explicit(slot, NULL, memory_order_acquire);
	first = all ? NULL : part(rest, &rest);
	given = put_back(arena, first, slot) || rest != NULL;
	give(arena, rest);
	return given;
}

bool kept_give(struct arena *arena, bool all)
{
	bool given = false;

	for (unsigned i = 0; i < KEPT_SIZES + KEPT_PAGES; i++)
		given |= give_slot(arena, &arena->kept[i], all);
	return given;
}

// Of another thread one may have been counted that was not in its slot yet, or any more.
void kept_fork_child(struct arena *arena)
{
	atomic_store(&arena->pages.kept_bytes, 0);
	for (unsigned i = 0; i < KEPT_SIZES + KEPT_PAGES; i++)
		for (struct run *run = atomic_load(&arena->kept[i]); run != NULL; run = next_of(run))
			kept_count(arena, run->bytes, true);
}
