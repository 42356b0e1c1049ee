// Snapshot: pulling the figures of arenas, and their sums.
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
#include "heap/samples.h"
#include "magazine/magazine.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "watch/profile.h"

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
	size_t cached[ARENAS_MOST][2]; // bytes in magazines of fronts: of small and of large objects
} snapshot = { .lock = MUTEX_INIT(RANK_CONTROLS) };

// Figures that arenas share are told of the first one.
static void add_metadata(struct arena_figures *to, unsigned id, unsigned arenas)
{
	to->base = sizeof(struct arena);
	if (id != 0)
		return;
	to->base = base_bytes() - min_size(base_bytes(), (arenas - 1) * sizeof(struct arena));
	to->internal = magazines_bytes();
}

static void bin_figures(struct bin *bin, struct bin_figures *to)
{
	mutex_figures_add(&to->mutex, &bin->lock);
	mutex_lock(&bin->lock);
	to->nmalloc += bin->filled;
	to->ndalloc += bin->drained;
	to->nfills += bin->fills;
	to->nflushes += bin->drains;
	to->nslabs += bin->slabs_made;
	to->nreslabs += bin->slabs_used_up;
	to->curslabs += bin->slabs;
	to->most_slabs += bin->slabs_most;
	to->nonfull_slabs += bin->partial_slabs;
	to->curregs += bin->slabs * bin->shape.buffers - bin->free_buffers;
	mutex_unlock(&bin->lock);
}

// Samples lie in slabs of their own; one that is a page run counts as such a slab, which is full.
static void sample_figures(struct arena *arena, unsigned class, struct bin_figures *to)
{
	struct large_reading runs = large_count_read(arena_large_count(arena, class_size(class)));
	struct bin *bin = samples_bin_of(arena, class);

	if (bin != NULL)
		bin_figures(bin, to);
	to->nmalloc += runs.allocated;
	to->nfills += runs.allocated;
	to->nslabs += runs.allocated;
	to->ndalloc += runs.freed;
	to->nflushes += runs.freed;
	to->curslabs += runs.allocated - runs.freed;
	to->curregs += runs.allocated - runs.freed;
}

static void small_figures(struct arena *arena, struct arena_figures *to)
{
	for (unsigned i = 0; i < BINS; i++) {
		struct bin_figures *bin = &to->bins[i];

		bin_figures(&arena->bins[i + 1], bin);
		sample_figures(arena, i + 1, bin);
		bin->nrequests = bin->nmalloc;
		mutex_figures_add(&bin->mutex, &arena->depots[i + 1].lock);
		to->small.allocated += bin->curregs * class_size(i + 1);
		to->small.nmalloc += bin->nmalloc;
		to->small.ndalloc += bin->ndalloc;
		to->small.nfills += bin->nfills;
		to->small.nflushes += bin->nflushes;
	}
	to->small.nrequests = to->small.nmalloc;
}

static void large_figures(struct arena *arena, const struct own_figures *own, struct arena_figures *to)
{
	for (unsigned i = 0; i < LARGE_CLASSES; i++) {
		struct lextent_figures *lextent = &to->lextents[i];
		unsigned slot = i - (CLASSES - SLAB_CLASSES);
		struct large_reading counts = large_count_read(&arena->large[i]);

		if (counts.allocated == 0)
			continue;
		if (slot < KEPT_SIZES) {
			counts.allocated += own->allocated[slot];
			counts.freed = min_size(counts.freed + own->freed[slot], counts.allocated); // an estimate, where threads are at work
		}
		lextent->nmalloc = lextent->nrequests = counts.allocated;
		lextent->ndalloc = counts.freed;
		lextent->curlextents = (size_t)(counts.allocated - counts.freed);
		to->large.allocated += lextent->curlextents * class_size(i + SLAB_CLASSES);
		to->large.nmalloc += counts.allocated;
		to->large.ndalloc += counts.freed;
	}
	to->large.nrequests = to->large.nfills = to->large.nmalloc;
	to->large.nflushes = to->large.ndalloc;
}

static void mutexes_figures(struct arena *arena, struct arena_mutexes *to)
{
	for (unsigned class = SLAB_CLASSES; class < CLASSES; class++)
		mutex_figures_add(&to->large, &arena->depots[class].lock);
	mutex_figures_add(&to->extents_dirty, &arena->pages.runs.lock);
	mutex_figures_add(&to->extents_retained, &arena->pages.extents.lock);
	if (arena->id != 0)
		return;
	mutex_figures_add(&to->base, base_mutex());
	mutex_figures_add(&to->tcache_list, fronts_mutex());
}

static void add_mutexes(struct arena_mutexes *to, const struct arena_mutexes *from)
{
	mutex_figures_join(&to->large, &from->large);
	mutex_figures_join(&to->extents_dirty, &from->extents_dirty);
	mutex_figures_join(&to->extents_retained, &from->extents_retained);
	mutex_figures_join(&to->base, &from->base);
	mutex_figures_join(&to->tcache_list, &from->tcache_list);
}

static void reset_arena_mutexes(struct arena *arena)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		mutex_figures_reset(&arena->depots[class].lock);
		if (class < SLAB_CLASSES)
			mutex_figures_reset(&arena->bins[class].lock);
		if (samples_bin_of(arena, class) != NULL)
			mutex_figures_reset(&samples_bin_of(arena, class)->lock);
	}
	mutex_figures_reset(&arena->pages.runs.lock);
	mutex_figures_reset(&arena->pages.extents.lock);
}

// What magazines hold is not the program's.
static void take_off_cached(struct arena *arena, struct arena_figures *to)
{
	size_t cached[2];

	memcpy(cached, snapshot.cached[arena->id], sizeof cached);
	for (unsigned class = 1; class < CLASSES; class++)
		cached[class >= SLAB_CLASSES] += arena->depots[class].rounds * class_size(class);
	cached[0] = min_size(to->small.allocated, cached[0]); // an estimate, where threads are at work
	cached[1] = min_size(to->large.allocated, cached[1]);
	to->tcache_bytes = cached[0] + cached[1];
	to->small.allocated -= cached[0];
	to->large.allocated -= cached[1];
}

static void pages_figures(const struct pages *pages, size_t own_bytes, struct arena_figures *to)
{
	to->active = pages_active_bytes(pages);
	own_bytes = min_size(to->active, own_bytes);
	to->active -= own_bytes;
	to->dirty = pages_dirty_bytes(pages) + own_bytes;
	to->retained = __atomic_load_n(&pages->runs.bytes[VMEM_CLEAN], __ATOMIC_RELAXED) +
		       __atomic_load_n(&pages->extents.kept_bytes, __ATOMIC_RELAXED);
	to->pdirty = to->dirty / os_page_size();
	to->dirty_npurge = atomic_load_explicit(&pages->purges, memory_order_relaxed);
	to->dirty_nmadvise = atomic_load_explicit(&pages->purge_calls, memory_order_relaxed);
	to->dirty_purged = atomic_load_explicit(&pages->purged_bytes, memory_order_relaxed) / os_page_size();
}

static size_t in_pages(size_t bytes)
{
	return round_up(bytes, os_page_size());
}

static void arena_figures(struct arena *arena, unsigned arenas, struct arena_figures *to)
{
	struct own_figures own;

	memset(to, 0, sizeof *to);
	fronts_own_runs(arena, &own);
	to->live = true;
	to->nthreads = atomic_load_explicit(&arena->threads, memory_order_relaxed);
	to->uptime = (os_clock_ms() - arena->created_at) * 1000000;
	to->dirty_decay_ms = arena_dirty_decay_ms(arena);
	to->muzzy_decay_ms = arena_muzzy_decay_ms(arena);
	small_figures(arena, to);
	large_figures(arena, &own, to);
	pages_figures(&arena->pages, own.bytes, to);
	mutexes_figures(arena, &to->mutexes);
	take_off_cached(arena, to);
	add_metadata(to, arena->id, arenas);
	to->active = max_size(to->active, in_pages(to->small.allocated + to->large.allocated)); // the parts were read one after the other
	to->pactive = to->active / os_page_size();
	to->resident = to->mapped = in_pages(to->active + to->dirty + to->base + to->internal);
}

static void add_kind(struct kind_figures *to, const struct kind_figures *from)
{
	to->allocated += from->allocated;
	to->nmalloc += from->nmalloc;
	to->ndalloc += from->ndalloc;
	to->nrequests += from->nrequests;
	to->nfills += from->nfills;
	to->nflushes += from->nflushes;
}

static void add_bin(struct bin_figures *to, const struct bin_figures *from)
{
	to->nmalloc += from->nmalloc;
	to->ndalloc += from->ndalloc;
	to->nrequests += from->nrequests;
	to->nfills += from->nfills;
	to->nflushes += from->nflushes;
	to->nslabs += from->nslabs;
	to->nreslabs += from->nreslabs;
	to->curregs += from->curregs;
	to->curslabs += from->curslabs;
	to->most_slabs += from->most_slabs;
	to->nonfull_slabs += from->nonfull_slabs;
	mutex_figures_join(&to->mutex, &from->mutex);
}

static void add_lextent(struct lextent_figures *to, const struct lextent_figures *from)
{
	to->nmalloc += from->nmalloc;
	to->ndalloc += from->ndalloc;
	to->nrequests += from->nrequests;
	to->curlextents += from->curlextents;
}

static void add_arena(struct arena_figures *to, const struct arena_figures *from)
{
	to->nthreads += from->nthreads;
	to->uptime = from->uptime > to->uptime ? from->uptime : to->uptime;
	to->pactive += from->pactive;
	to->pdirty += from->pdirty;
	to->active += from->active;
	to->dirty += from->dirty;
	to->mapped += from->mapped;
	to->retained += from->retained;
	to->base += from->base;
	to->internal += from->internal;
	to->tcache_bytes += from->tcache_bytes;
	to->resident += from->resident;
	to->dirty_npurge += from->dirty_npurge;
	to->dirty_nmadvise += from->dirty_nmadvise;
	to->dirty_purged += from->dirty_purged;
	add_kind(&to->small, &from->small);
	add_kind(&to->large, &from->large);
	add_mutexes(&to->mutexes, &from->mutexes);
	for (unsigned i = 0; i < BINS; i++)
		add_bin(&to->bins[i], &from->bins[i]);
	for (unsigned i = 0; i < LARGE_CLASSES; i++)
		if (from->lextents[i].nmalloc > 0)
			add_lextent(&to->lextents[i], &from->lextents[i]);
}

static void set_totals(void)
{
	const struct arena_figures *sums = &snapshot.sums;
	struct totals *totals = &snapshot.totals;

	totals->allocated = sums->small.allocated + sums->large.allocated;
	totals->active = sums->active;
	totals->metadata = sums->base + sums->internal;
	totals->resident = in_pages(sums->resident + magazines_dirty_bytes());
	totals->mapped = totals->resident;
	totals->retained = sums->retained;
	totals->background_threads = atomic_load(&reclaim_state) != RECLAIM_NO_THREAD;
	totals->background_runs = atomic_load_explicit(&reclaim_runs, memory_order_relaxed);
	totals->background_interval_ns = totals->background_runs > 0 ? RECLAIM_STEP_MS * (uint64_t)1000000 : 0;
	totals->ctl = totals->prof = (struct mutex_figures){ 0 };
	mutex_figures_add(&totals->ctl, &snapshot.lock);
	mutex_figures_add(&totals->ctl, names_mutex());
	mutex_figures_add(&totals->prof, profile_mutex());
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

// Under the lock.
static void take_arenas(unsigned arenas)
{
	unsigned made = 0;

	for (unsigned id = 0; id < arenas; id++)
		made += arena_is_live(id);
	memset(&snapshot.scratch, 0, sizeof snapshot.scratch);
	for (unsigned id = 0; id < arenas; id++) {
		struct arena_figures *figures = atomic_load(&snapshot.by_id[id]);

		if (figures == NULL)
			continue;
		if (arena_is_live(id)) {
			arena_figures(arena_of(id), made, figures);
			add_arena(&snapshot.scratch, figures);
		} else
			figures->live = false;
	}
	add_arena(&snapshot.scratch, &snapshot.destroyed);
	snapshot.scratch.live = true;
	snapshot.scratch.dirty_decay_ms = arenas_dirty_decay_ms();
	snapshot.scratch.muzzy_decay_ms = arenas_muzzy_decay_ms();
	snapshot.sums = snapshot.scratch;
	snapshot.arenas = arenas;
}

uint64_t snapshot_take(void)
{
	unsigned arenas = arenas_count();
	uint64_t epoch;

	if (!heap_ready())
		return 0;
	front_get(); // the first arena exists from here on
	make_room(arenas);
	mutex_lock(&snapshot.lock);
	memset(snapshot.cached, 0, sizeof snapshot.cached);
	fronts_cached(snapshot.cached);
	take_arenas(arenas);
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
	if (id == CONTROL_ALL || id == snapshot.arenas)
		figures = &snapshot.sums;
	else if (id == CONTROL_DESTROYED)
		figures = &snapshot.destroyed;
	else if (id < ARENAS_MOST)
		figures = atomic_load_explicit(&snapshot.by_id[id], memory_order_acquire);
	return figures != NULL && figures->live ? figures : NULL;
}

static void forget_bin(struct bin *bin)
{
	if (bin == NULL)
		return;
	bin->filled = bin->drained = bin->fills = bin->drains = bin->slabs_made = bin->slabs_used_up = 0;
	bin->slabs_most = 0;
}

// Nobody uses the arena: its number is given to another one later.
static void forget_counts(struct arena *arena)
{
	for (unsigned class = 1; class < SLAB_CLASSES; class++) {
		forget_bin(&arena->bins[class]);
		forget_bin(samples_bin_of(arena, class));
	}
	memset(arena->large, 0, sizeof arena->large);
	arena->pages.purges = arena->pages.purge_calls = arena->pages.purged_bytes = 0;
	reset_arena_mutexes(arena);
}

void snapshot_destroyed(unsigned id)
{
	struct arena *arena = arena_of(id);
	struct arena_figures *scratch = &snapshot.scratch;

	mutex_lock(&snapshot.lock);
	memset(snapshot.cached[id], 0, sizeof snapshot.cached[id]);
	arena_figures(arena, 1, scratch);
	scratch->active = scratch->pactive = scratch->dirty = scratch->pdirty = 0;
	scratch->mapped = scratch->retained = scratch->base = scratch->internal = scratch->resident = 0;
	scratch->nthreads = 0;
	add_arena(&snapshot.destroyed, scratch);
	snapshot.destroyed.live = true;
	forget_counts(arena);
	mutex_unlock(&snapshot.lock);
}

void snapshot_reset_mutexes(void)
{
	mutex_figures_reset(names_mutex());
	mutex_figures_reset(&snapshot.lock);
	for (unsigned id = 0; id < arenas_count(); id++)
		if (arena_of(id) != NULL)
			reset_arena_mutexes(arena_of(id));
	mutex_figures_reset(fronts_mutex());
	mutex_figures_reset(profile_mutex());
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
