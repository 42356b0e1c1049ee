// Own runs: a thread's slots, and how much may lie in them.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/own_runs.h"

#include <stdatomic.h>

#include "guard/report.h"
#include "heap/kept.h"
#include "heap/large.h"
#include "os/pages.h"

enum {
	OWN_FLOOR = 1024 * 1024, // bytes that the fronts of an arena may hold in any case
	LG_OWN_PROPORTION = 5,   // and of its active bytes
};

void own_runs_report(const void *object)
{
	guard_report("malloc", object, "freed by two threads at once", 0);
}

static struct large_count *count_of(const struct front *front, const struct own_run *slot)
{
	return &front->arena->large[CLASSES - SLAB_CLASSES + (size_t)(slot - front->own)];
}

// Of objects freed, all but the one whose run is there were allocated since.
static void tell(struct front *front, struct own_run *slot)
{
	uint32_t held = slot->run != NULL, again = slot->freed - held;

	if (again == 0)
		return;
	atomic_fetch_add_explicit(&count_of(front, slot)->allocated, again, memory_order_relaxed);
	atomic_fetch_add_explicit(&count_of(front, slot)->freed, again, memory_order_release);
	slot->freed = held;
}

void own_runs_tell(struct front *front)
{
	front_enter(front);
	for (unsigned i = 0; i < KEPT_SIZES; i++)
		tell(front, &front->own[i]);
	front_leave(front);
}

// The arena's from now on, which is told.
static struct run *unload(struct front *front, struct own_run *slot)
{
	struct run *run = slot->run;

	tell(front, slot);
	if (run == NULL)
		return NULL;
	own_runs_empty(front, slot, run->bytes);
	slot->freed = 0;
	atomic_fetch_add_explicit(&count_of(front, slot)->freed, 1, memory_order_release);
	return run;
}

static struct run *take_out(struct front *front, struct own_run *slot)
{
	struct run *run;

	front_enter(front);
	run = unload(front, slot);
	front_leave(front);
	return run;
}

// If nobody wanted it since the last time, or in any case. What does not come and go any more is forgotten.
static struct run *take_unwanted(struct front *front, struct own_run *slot, bool all)
{
	struct run *run = NULL;

	front_enter(front);
	if (slot->run != NULL && slot->run->taken && !all)
		slot->run->taken = false;
	else if (slot->run != NULL) {
		front->own_again &= (uint16_t)~own_runs_bit(front, slot);
		run = unload(front, slot);
	}
	front_leave(front);
	return run;
}

struct run *own_runs_take_class(struct front *front, unsigned class)
{
	return take_out(front, &front->own[class - CLASSES]);
}

// To the arena's slot, or else the pages.
static void give(struct arena *arena, struct run *run)
{
	if (run == NULL)
		return;
	if (kept_wants(arena, run->bytes))
		kept_put(arena, run);
	else
		large_release(run);
}

void own_runs_unload(struct front *front, struct run *runs[KEPT_SIZES])
{
	for (unsigned i = 0; i < KEPT_SIZES; i++)
		runs[i] = unload(front, &front->own[i]);
}

void own_runs_give_taken(struct arena *arena, struct run *runs[KEPT_SIZES])
{
	for (unsigned i = 0; i < KEPT_SIZES; i++)
		give(arena, runs[i]);
}

static void give_unwanted(struct front *front, bool all)
{
	for (unsigned i = 0; i < KEPT_SIZES; i++)
		give(front->arena, take_unwanted(front, &front->own[i], all));
}

static void count_room(struct front *front, size_t more)
{
	front->own_room += more;
	atomic_fetch_add_explicit(&front->arena->own_room, more, memory_order_relaxed);
}

void own_runs_give_some(struct front *front, bool all)
{
	give_unwanted(front, all);
	own_runs_tell(front);
	if (front->own_room > front->own_bytes)
		count_room(front, (size_t)front->own_bytes - front->own_room);
}

static bool is_room(const struct front *front, size_t more)
{
	size_t room = atomic_load_explicit(&front->arena->own_room, memory_order_relaxed) + more;

	return room <= OWN_FLOOR || room <= OWN_FLOOR + (pages_active_bytes(&front->arena->pages) >> LG_OWN_PROPORTION);
}

// Room that a front has stays its own until it tidies up: so a pair that comes again and again counts nothing.
static bool make_room(struct front *front, size_t bytes)
{
	if (front->own_bytes + bytes <= front->own_room)
		return true;
	if (!is_room(front, front->own_bytes + bytes - front->own_room))
		return false;
	count_room(front, front->own_bytes + bytes - front->own_room);
	return true;
}

bool own_runs_make_room_and_free(struct front *front, void *object)
{
	struct run *run = page_map_known_run(object);
	struct own_run *slot = own_runs_slot(front, run->bytes);

	if (!kept_may(front->arena))
		return false;
	give(front->arena, take_out(front, slot));
	return make_room(front, run->bytes) && own_runs_free(front, object);
}
