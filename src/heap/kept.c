// Kept runs: putting, taking, and giving up what is not wanted.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/kept.h"

#include <stdatomic.h>

#include "heap/large.h"
#include "os/pages.h"

enum {
	KEPT_FLOOR = 256 * 1024, // bytes that an arena may keep in any case
	LG_KEPT_PROPORTION = 5,  // and of its active bytes
};

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
	size_t kept = atomic_load_explicit(&arena->pages.kept_bytes, memory_order_relaxed) + bytes;

	return kept <= KEPT_FLOOR || kept <= KEPT_FLOOR + (pages_active_bytes(&arena->pages) >> LG_KEPT_PROPORTION);
}

// Not in explicit arenas, whose reset knows all their runs; nor what hooks gave.
bool kept_wants(const struct arena *arena, size_t bytes)
{
	return has_slot(bytes) && is_room(arena, bytes) && !arena->is_explicit && extents_are_zero(&arena->pages.extents) &&
	       pages_decay_ms(&arena->pages) != 0;
}

static void give(struct arena *arena, struct run *run)
{
	kept_count(arena, run->bytes, false);
	large_release(run);
}

// The one freed last is most likely in the processor's cache: it takes the place of the one before.
static void put(struct arena *arena, struct run *run, struct run *_Atomic *slot)
{
	struct run *before;

	run->taken = true;
	run->sample = 0;
	kept_count(arena, run->bytes, true);
	before = atomic_exchange_explicit(slot, run, memory_order_acq_rel);
	if (UNLIKELY(before != NULL))
		give(arena, before);
}

void kept_put(struct arena *arena, struct run *run)
{
	put(arena, run, slot_for(arena, run->bytes));
}

void kept_put_class(struct arena *arena, struct run *run, unsigned class)
{
	put(arena, run, &arena->kept[class - CLASSES]);
}

struct run *kept_take(struct arena *arena, size_t bytes)
{
	struct run *run = has_slot(bytes) ? kept_take_from(arena, slot_for(arena, bytes)) : NULL;

	if (run != NULL)
		run->bytes = bytes;
	return run;
}

// A run that was put since the last call stays for another one, unless a newer one took its place.
static bool give_slot(struct arena *arena, struct run *_Atomic *slot, bool all)
{
	struct run *run, *none = NULL;

	if (atomic_load_explicit(slot, memory_order_relaxed) == NULL)
		return false;
	run = atomic_exchange_explicit(slot, NULL, memory_order_acquire);
	if (run == NULL)
		return false;
	if (run->taken && !all) {
		run->taken = false;
		if (atomic_compare_exchange_strong_explicit(slot, &none, run, memory_order_release, memory_order_relaxed))
			return false;
	}
	give(arena, run);
	return true;
}

bool kept_give(struct arena *arena, bool all)
{
	bool given = false;

	for (unsigned i = 0; i < KEPT_SIZES + KEPT_PAGES; i++)
		given |= give_slot(arena, &arena->kept[i], all);
	return given;
}
