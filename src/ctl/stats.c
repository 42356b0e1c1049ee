// Statistics: summing the modules' figures.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/stats.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "ctl/figures.h"
#include "heap/debug.h"
#include "heap/explicit.h"
#include "heap/fronts.h"
#include "magazine/magazine.h"
#include "pages/chunks.h"
#include "os/clock.h"
#include "os/pages.h"
#include "util/format.h"
#include "vmag/format.h"

static size_t cached_bytes(void)
{
	size_t rounds[CLASSES], bytes = 0;

	fronts_and_depots_count(rounds);
	for (unsigned class = 1; class < CLASSES; class++)
		bytes += rounds[class] * class_size(class);
	return bytes;
}

static void add_large(struct vmag_box_class *to, const struct arena *arena, const struct own_figures *own, unsigned class)
{
	struct large_reading counts = fronts_large(arena, own, class);

	if (counts.allocated == 0)
		return;
	to->size = class_size(class);
	to->live += counts.allocated - counts.freed;
	to->handed_out += counts.allocated;
	to->taken_back += counts.freed;
}

static void add_alone(const struct arena *arena, const struct own_figures *own, struct stats *stats)
{
	for (unsigned class = CLASSES; class < SLAB_CLASSES + LARGE_CLASSES; class++) {
		struct large_reading counts = fronts_large(arena, own, class);
		size_t live = (size_t)(counts.allocated - counts.freed);

		stats->alone += live;
		stats->alone_bytes += live * class_size(class);
	}
}

struct stats stats_snapshot(void)
{
	struct stats stats = { .arenas = arenas_live(), .threads = fronts_live() };
	struct own_figures own;
	size_t out = 0, slab_bytes = 0;

	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
		for (unsigned class = 1; class < SLAB_CLASSES; class++) {
			struct bin_figures figures = { 0 };

			figures_add_slabs(&figures, arena, class);
			out += figures.curregs * class_size(class);
			slab_bytes += figures.slab_bytes;
		}
		fronts_own_runs(arena, &own);
		add_alone(arena, &own, &stats);
		own.bytes = min_size(own.bytes, pages_active_bytes(&arena->pages));
		stats.active += pages_active_bytes(&arena->pages) - own.bytes;
		stats.dirty += pages_dirty_bytes(&arena->pages) + own.bytes;
	}
	stats.cached = cached_bytes();
	stats.large = stats.active - min_size(stats.active, slab_bytes); // slabs may have gone since they were counted
	stats.allocated = out + stats.large;
	stats.allocated -= min_size(stats.allocated, stats.cached);
	stats.dirty += magazines_dirty_bytes();
	stats.metadata = base_bytes() + magazines_bytes();
	stats.mapped = chunks_mapped_bytes();
	return stats;
}

static void add_slabs(struct vmag_box_class *to, struct arena *arena, unsigned class)
{
	struct bin_figures figures = { 0 };

	figures_add_slabs(&figures, arena, class);
	to->size = class_size(class);
	to->live += figures.curregs;
	to->handed_out += figures.nmalloc;
	to->taken_back += figures.ndalloc;
	to->slabs += figures.curslabs;
	to->partial_slabs += figures.nonfull_slabs;
	to->free_buffers += figures.free_buffers;
	to->slab_bytes += figures.slab_bytes;
}

static void add_classes(struct vmag_box_class *classes)
{
	size_t rounds[CLASSES];
	struct own_figures own;

	fronts_and_depots_count(rounds);
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
		for (unsigned class = 1; class < SLAB_CLASSES; class++)
			add_slabs(&classes[class], arena, class);
		fronts_own_runs(arena, &own);
		for (unsigned class = SLAB_CLASSES; class < SLAB_CLASSES + LARGE_CLASSES; class++)
			add_large(&classes[class], arena, &own, class);
	}
	for (unsigned class = 1; class < CLASSES; class++) {
		classes[class].cached = min_size(rounds[class], classes[class].live);
		classes[class].live -= classes[class].cached;
	}
}

_Static_assert(SLAB_CLASSES + LARGE_CLASSES <= VMAG_BOX_CLASSES, "the black box has a row for each class");

void stats_for_box(struct vmag_box_counters *counters)
{
	struct stats stats = stats_snapshot();

	memset(counters, 0, sizeof *counters);
	counters->time = os_clock_epoch_seconds();
	counters->allocated = stats.allocated;
	counters->active = stats.active;
	counters->dirty = stats.dirty;
	counters->cached = stats.cached;
	counters->metadata = stats.metadata;
	counters->mapped = stats.mapped;
	counters->resident = os_resident_bytes();
	counters->peak_resident = os_peak_resident_bytes();
	counters->arenas = stats.arenas;
	counters->threads = stats.threads;
	add_classes(counters->classes);
}

// With debugging objects take more than their samples say; what the magazines of caches hold that the program made, or held of threads that a fork's child does not
// have, counts as allocated.
bool stats_for_dump(size_t *allocated, unsigned *threads)
{
	struct stats stats;

	if (heap_debug == DEBUG_ON || explicit_caches_used() || fronts_lost())
		return false;
	stats = stats_snapshot();
	*allocated = stats.allocated;
	*threads = stats.threads;
	return true;
}

void stats_json(struct text *text, const struct stats *stats)
{
	text_add(text,
		 "\"allocated_bytes\":%zu,\"active_bytes\":%zu,\"dirty_bytes\":%zu,\"cached_bytes\":%zu,"
		 "\"metadata_bytes\":%zu,\"mapped_bytes\":%zu,\"arenas\":%u,\"threads\":%u",
		 stats->allocated, stats->active, stats->dirty, stats->cached, stats->metadata, stats->mapped, stats->arenas,
		 stats->threads);
}

void stats_lines(struct text *text, const struct stats *stats)
{
	text_add(text, "vmag: %u arenas, %u threads\n", stats->arenas, stats->threads);
	text_add(text, "allocated %14zu bytes, held by the program\n", stats->allocated);
	text_add(text, "active    %14zu bytes, in slabs and page runs in use\n", stats->active);
	text_add(text, "cached    %14zu bytes, free objects in magazines\n", stats->cached);
	text_add(text, "dirty     %14zu bytes, unused pages not yet given back\n", stats->dirty);
	text_add(text, "metadata  %14zu bytes\n", stats->metadata);
	text_add(text, "mapped    %14zu bytes of address space\n", stats->mapped);
}
