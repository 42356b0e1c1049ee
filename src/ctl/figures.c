// Figures: pulled from the modules of an arena, added, begun anew.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/figures.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "heap/explicit.h"
#include "heap/fronts.h"
#include "heap/samples.h"
#include "magazine/magazine.h"
#include "os/clock.h"
#include "os/pages.h"

// Figures that arenas share are told of the first one.
static void add_metadata(struct arena_figures *to, unsigned id, unsigned arenas)
{
	to->base = sizeof(struct arena);
	if (id != 0)
		return;
	to->base = base_bytes() - min_size(base_bytes(), (arenas - 1) * sizeof(struct arena));
	to->internal = magazines_bytes();
}

static void add_of_bin(struct bin_figures *to, struct bin *bin)
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
	to->free_buffers += bin->free_buffers;
	to->slab_bytes += bin->slabs * bin->shape.slab_bytes;
	mutex_unlock(&bin->lock);
}

static size_t in_pages(size_t bytes)
{
	return round_up(bytes, os_page_size());
}

void figures_add_slabs(struct bin_figures *to, struct arena *arena, unsigned class)
{
	struct large_reading runs = large_count_read(arena_large_count(arena, class_size(class)));
	size_t live_runs = (size_t)(runs.allocated - runs.freed);
	struct bin *samples = samples_bin_of(arena, class);

	add_of_bin(to, &arena->bins[class]);
	if (samples != NULL)
		add_of_bin(to, samples);
	to->nmalloc += runs.allocated;
	to->nfills += runs.allocated;
	to->nslabs += runs.allocated;
	to->ndalloc += runs.freed;
	to->nflushes += runs.freed;
	to->curslabs += live_runs;
	to->curregs += live_runs;
	to->slab_bytes += live_runs * in_pages(class_size(class));
}

static void small_figures(struct arena *arena, struct arena_figures *to)
{
	for (unsigned i = 0; i < BINS; i++) {
		struct bin_figures *bin = &to->bins[i];

		figures_add_slabs(bin, arena, i + 1);
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
		struct large_reading counts = fronts_large(arena, own, i + SLAB_CLASSES);

		if (counts.allocated == 0)
			continue;
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

void figures_reset_mutexes(struct arena *arena)
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
static void take_off_cached(struct arena *arena, const size_t in_fronts[2], struct arena_figures *to)
{
	size_t cached[2] = { in_fronts[0], in_fronts[1] };

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

void figures_take(struct arena *arena, unsigned arenas, const size_t cached[2], struct arena_figures *to)
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
	take_off_cached(arena, cached, to);
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

void figures_add(struct arena_figures *to, const struct arena_figures *from)
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

static void forget_bin(struct bin *bin)
{
	if (bin == NULL)
		return;
	bin->filled = bin->drained = bin->fills = bin->drains = bin->slabs_made = bin->slabs_used_up = 0;
	bin->slabs_most = 0;
}

// Nobody uses the arena: its number is given to another one later.
void figures_forget(struct arena *arena)
{
	for (unsigned class = 1; class < SLAB_CLASSES; class++) {
		forget_bin(&arena->bins[class]);
		forget_bin(samples_bin_of(arena, class));
	}
	memset(arena->large, 0, sizeof arena->large);
	arena->pages.purges = arena->pages.purge_calls = arena->pages.purged_bytes = 0;
	figures_reset_mutexes(arena);
}
