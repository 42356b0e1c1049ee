// Own runs: the page run of each size from 80 KiB to 1 MiB that a thread freed last, at hand for its next request of that size.
//
// As kept runs (heap/kept.h), which they come before, but in the thread's front: no lock and no atomic operation. To the page map an own
// run is free, so that freeing it once more is noticed; to the vmem arena it is allocated; figures that anyone asks for take it as dirty
// (fronts_own_runs), those that the heap steers by as active, as they do what lies in magazines.
//
// Only of a class whose objects come and go: eight times one was freed and another allocated soon. What is freed now and then, as a table
// that has grown, is the arena's.
//
// Together the fronts of an arena hold 1 MiB and a 32nd of what it has in use at most. A run goes to the arena when another of its size is
// freed, when nobody wanted it from one tidying of the front to the next, when the heap grows by a step (docs/decisions/0040), when the arena
// keeps none any more, at its purge, at malloc_trim and when the thread ends; from a thread that sleeps it is taken (heap/sleepers.h). In a
// child of fork, those of other threads are lost.
//
// A slot is touched between front_enter and front_leave, by the thread or by who visits it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "heap/front.h"
#include "pages/page_map.h"
#include "slab/slab.h"

// Reports an object that two threads freed at once.
_Noreturn void own_runs_report(const void *object);

// Frees a large object of a class that comes and goes, others being given to the arena for it. False: there is no room, and nothing is done.
bool own_runs_make_room_and_free(struct front *front, void *object);

static inline bool own_runs_has_slot(size_t bytes)
{
	return bytes - MAGAZINE_MOST - 1 < KEPT_MOST - MAGAZINE_MOST;
}

// The run for that class, or for that many bytes, a class size, no longer the front's and no object yet; NULL: there is none.
struct run *own_runs_take_class(struct front *front, unsigned class);
static inline struct run *own_runs_take(struct front *front, size_t size)
{
	return UNLIKELY(front->own_bytes != 0) && own_runs_has_slot(size) ? own_runs_take_class(front, size_class_large(size)) : NULL;
}

// Takes all out of their slots, by who visits the front; and gives what was taken to the arena.
void own_runs_unload(struct front *front, struct run *runs[KEPT_SIZES]);
void own_runs_give_taken(struct arena *arena, struct run *runs[KEPT_SIZES]);

// Gives those that nobody wanted since the last call, or all, to the arena. Counts what is held, and what was done, anew.
void own_runs_give_some(struct front *front, bool all);
static inline void own_runs_give(struct front *front, bool all)
{
	if (UNLIKELY(front->own_again != 0))
		own_runs_give_some(front, all);
	front->own_seen = front->own_again;
}

// Tells the arena how often objects were freed and allocated again; what is not told yet fronts_own_runs adds.
void own_runs_tell(struct front *front);

enum { OWN_RUNS_COME_AND_GO = 8 };

static inline struct own_run *own_runs_slot(struct front *front, size_t bytes)
{
	return &front->own[size_class_large(bytes) - CLASSES];
}

static inline unsigned own_runs_bit(const struct front *front, const struct own_run *slot)
{
	return 1u << (slot - front->own);
}

// An allocation of which nothing was at hand.
static inline void own_runs_missed(struct front *front, struct own_run *slot)
{
	unsigned bit = own_runs_bit(front, slot);

	if ((front->own_seen & bit) == 0)
		return;
	front->own_seen &= (uint16_t)~bit;
	if (++slot->missed % OWN_RUNS_COME_AND_GO == 0)
		front->own_again |= (uint16_t)bit;
}

static inline void own_runs_empty(struct front *front, struct own_run *slot, size_t bytes)
{
	slot->run = NULL;
	front->own_bytes -= bytes;
}

// An object of that many bytes, for which there is a slot; NULL: there is none at hand.
// First the slot is emptied: who is left in between, by a handler's longjmp, loses a run.
static inline void *own_runs_alloc(struct front *front, size_t size)
{
	unsigned class = size_class_large(size);
	struct own_run *slot = &front->own[class - CLASSES];
	struct run *run;
	void *object = NULL;

	front_enter(front);
	run = slot->run;
	if (LIKELY(run != NULL)) {
		own_runs_empty(front, slot, class_size(class));
		object = slot->object;
		if (UNLIKELY(page_map_word(object) != 0))
			own_runs_report(object);
		atomic_store_explicit(slot->entry, run, memory_order_relaxed);
		page_map_put_word(object, (unsigned)words.word);
	} else
		own_runs_missed(front, slot);
	front_leave(front);
	return object;
}

// Only sizes of classes, four for each doubling, lest a slot give out less than its class; none that is sampled, or kept in magazines.
static inline bool own_runs_fits(const struct run *run, const void *object)
{
	return run != NULL && run->bin == NULL && run_start(run) == (uintptr_t)object && (run->size_class | run->sample) == 0 && own_runs_has_slot(run->bytes) &&
	       class_round_large(run->bytes) == run->bytes;
}

// Frees a large object of the front's arena. False: there is no room for its run, or it is not kept here, and nothing is done.
// No calls: this is all that a pair of malloc and free has. What a pair touches is rarely in the processor's nearest cache, for the program
// has written to the object: the fields are few lines.
static inline __attribute__((always_inline)) bool own_runs_free(struct front *front, void *object)
{
	run_pointer *entry = page_map_entry(object);
	struct run *run = atomic_load_explicit(entry, memory_order_relaxed);
	struct own_run *slot;
	bool free;

	if (UNLIKELY(!own_runs_fits(run, object)))
		return false;
	slot = own_runs_slot(front, run->bytes);
	front_enter(front);
	free = LIKELY((front->own_again & own_runs_bit(front, slot)) != 0 && slot->run == NULL && front->own_bytes + run->bytes <= front->own_room);
	if (free) {
		page_map_put_word(object, 0);
		atomic_store_explicit(entry, NULL, memory_order_relaxed);
		run->taken = true;
		front->own_bytes += run->bytes;
		slot->run = run;
		slot->object = object;
		slot->entry = entry;
		slot->freed++;
	}
	front_leave(front);
	return free;
}

// What the first will not.
static inline bool own_runs_free_over(struct front *front, void *object)
{
	struct run *run = page_map_known_run(object);
	uint16_t bit;

	if (!own_runs_fits(run, object))
		return false;
	bit = (uint16_t)own_runs_bit(front, own_runs_slot(front, run->bytes));
	front->own_seen |= bit;
	return (front->own_again & bit) != 0 && own_runs_make_room_and_free(front, object);
}
