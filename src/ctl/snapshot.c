// Snapshot: the figures of all arenas, their sums, and what is of the process.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/snapshot.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "ctl/control.h"
#include "heap/explicit.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "magazine/magazine.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "watch/tally.h"

enum { TRIES = 3 }; // to give an arena room that is made meanwhile

static struct {
	struct mutex lock;
	// Written under lock, read by anyone.
	uint64_t epoch;
	unsigned arenas;
	struct totals totals;
	struct arena_figures *_Atomic by_id[ARENAS_MOST];
	struct arena_figures sums, destroyed;
	// Under lock.
	struct arena_figures scratch;
	struct arena_figures one; // arena's, before those who read its figures see them, or without: there may be no memory for them
	size_t cached[ARENAS_MOST][2]; // bytes in magazines of fronts: of small and of large objects
} snapshot = { .lock = MUTEX_INIT(RANK_CONTROLS) };

static void set_totals(void)
{
	const struct arena_figures *sums = &snapshot.sums;
	struct totals *totals = &snapshot.totals;
	struct mutex_figures ctl = { 0 }, prof = { 0 };

	totals->allocated = sums->small.allocated + sums->large.allocated;
	totals->active = sums->active;
	totals->metadata = sums->base + sums->internal;
	totals->resident = round_up(sums->resident + magazines_dirty_bytes(), os_page_size());
	totals->mapped = totals->resident;
	totals->retained = sums->retained;
	totals->background_threads = atomic_load(&reclaim_state) != RECLAIM_NO_THREAD;
	totals->background_runs = atomic_load_explicit(&reclaim_runs, memory_order_relaxed);
	totals->background_interval_ns = totals->background_runs > 0 ? RECLAIM_STEP_MS * (uint64_t)1000000 : 0;
	mutex_figures_add(&ctl, &snapshot.lock);
	mutex_figures_add(&ctl, names_mutex());
	mutex_figures_add(&prof, tallies_mutex());
	totals->ctl = ctl;
	totals->prof = prof;
}

// Room for the figures of all arenas that there are. Maps memory: no lock is held.
static void make_room(unsigned arenas)
{
	for (unsigned id = 0; id < arenas; id++) {
		struct arena_figures *none = NULL, *figures;

		if (arena_of(id) == NULL || atomic_load(&snapshot.by_id[id]) != NULL)
			continue;
		figures = base_alloc_pages(sizeof *figures);
		if (figures != NULL)
			atomic_compare_exchange_strong(&snapshot.by_id[id], &none, figures); // two at once: one room is lost
	}
}

// Under the lock. False: some arena has no room for its figures, which are in the sums.
static bool take_arenas(unsigned arenas)
{
	unsigned made = 0;
	bool has_all = true;

	for (unsigned id = 0; id < arenas; id++)
		made += arena_is_live(id);
	memset(&snapshot.scratch, 0, sizeof snapshot.scratch);
	for (unsigned id = 0; id < arenas; id++) {
		struct arena_figures *figures = atomic_load(&snapshot.by_id[id]);

		if (arena_is_live(id)) {
			figures_take(arena_of(id), made, snapshot.cached[id], &snapshot.one);
			figures_add(&snapshot.scratch, &snapshot.one);
			if (figures != NULL)
				*figures = snapshot.one;
			else
				has_all = false;
		} else if (figures != NULL)
			figures->live = false;
	}
	figures_add(&snapshot.scratch, &snapshot.destroyed);
	snapshot.scratch.live = true;
	snapshot.scratch.dirty_decay_ms = arenas_dirty_decay_ms();
	snapshot.scratch.muzzy_decay_ms = arenas_muzzy_decay_ms();
	snapshot.sums = snapshot.scratch;
	snapshot.arenas = arenas;
	return has_all;
}

static bool take_figures(unsigned arenas)
{
	memset(snapshot.cached, 0, sizeof snapshot.cached);
	fronts_cached(snapshot.cached);
	return take_arenas(arenas);
}

uint64_t snapshot_take(void)
{
	unsigned arenas = arenas_numbers();
	uint64_t epoch;

	if (!heap_ready())
		return 0;
	front_get(); // the first arena exists from here on
	make_room(arenas);
	mutex_lock(&snapshot.lock);
	// One may have been made meanwhile.
	for (unsigned tries = 0; !take_figures(arenas) && tries < TRIES; tries++) {
		mutex_unlock(&snapshot.lock);
		make_room(arenas);
		mutex_lock(&snapshot.lock);
	}
	set_totals();
	epoch = __atomic_add_fetch(&snapshot.epoch, 1, __ATOMIC_RELAXED);
	mutex_unlock(&snapshot.lock);
	return epoch;
}

uint64_t snapshot_epoch(void)
{
	uint64_t epoch = __atomic_load_n(&snapshot.epoch, __ATOMIC_RELAXED);

	return epoch != 0 ? epoch : snapshot_take();
}

const struct totals *snapshot_totals(void)
{
	snapshot_epoch();
	return &snapshot.totals;
}

unsigned snapshot_arenas(void)
{
	snapshot_epoch();
	return snapshot.arenas;
}

const struct arena_figures *snapshot_arena(unsigned id)
{
	const struct arena_figures *figures = NULL;

	snapshot_epoch();
	if (LIKELY(id < ARENAS_MOST))
		figures = atomic_load_explicit(&snapshot.by_id[id], memory_order_acquire);
	if (figures == NULL) // which the number that stands for all of them never has
		figures = id == CONTROL_ALL || id == control_arenas() ? &snapshot.sums : id == CONTROL_DESTROYED ? &snapshot.destroyed : NULL;
	return figures != NULL && figures->live ? figures : NULL;
}

void snapshot_destroyed(unsigned id)
{
	struct arena *arena = arena_of(id);
	struct arena_figures *scratch = &snapshot.scratch;

	mutex_lock(&snapshot.lock);
	figures_take(arena, 1, (const size_t[2]){ 0, 0 }, scratch);
	scratch->active = scratch->pactive = scratch->dirty = scratch->pdirty = 0;
	scratch->mapped = scratch->retained = scratch->base = scratch->internal = scratch->resident = 0;
	scratch->nthreads = 0;
	figures_add(&snapshot.destroyed, scratch);
	snapshot.destroyed.live = true;
	figures_forget(arena);
	mutex_unlock(&snapshot.lock);
}

void snapshot_reset_mutexes(void)
{
	mutex_figures_reset(names_mutex());
	mutex_figures_reset(&snapshot.lock);
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		figures_reset_mutexes(arena);
	mutex_figures_reset(fronts_mutex());
	mutex_figures_reset(tallies_mutex());
	mutex_figures_reset(base_mutex());
}

void snapshot_fork_prepare(void)
{
	mutex_fork_lock(&snapshot.lock);
}

void snapshot_fork_done(void)
{
	mutex_fork_unlock(&snapshot.lock);
}
