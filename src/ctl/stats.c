// Statistics: summing the modules' figures.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/stats.h"

#include <stdatomic.h>

#include "base/base.h"
#include "heap/front.h"
#include "magazine/magazine.h"
#include "pages/chunks.h"
#include "util/format.h"

// Bytes of objects outside the slabs of a bin, and the bytes of its slabs.
static void bin_sums(struct bin *bin, size_t *out, size_t *slab_bytes)
{
	mutex_lock(&bin->lock);
	*out += (bin->slabs * bin->shape.buffers - bin->free_buffers) * bin->shape.size;
	*slab_bytes += bin->slabs * bin->shape.slab_bytes;
	mutex_unlock(&bin->lock);
}

static size_t fronts_bytes(void)
{
	size_t rounds[CLASSES] = { 0 }, bytes = 0;

	fronts_count(rounds);
	for (unsigned class = 1; class < CLASSES; class++)
		bytes += rounds[class] * class_size(class);
	return bytes;
}

struct stats stats_snapshot(void)
{
	struct stats stats = { .arenas = arenas_created(), .threads = fronts_live() };
	size_t out = 0, slab_bytes = 0;

	for (unsigned i = 0; i < arenas_end(); i++) {
		struct arena *arena = arena_of(i);

		if (arena == NULL)
			continue;
		for (unsigned class = 1; class < SLAB_CLASSES; class++)
			bin_sums(&arena->bins[class], &out, &slab_bytes);
		stats.active += pages_active_bytes(&arena->pages);
		stats.dirty += pages_dirty_bytes(&arena->pages);
		stats.cached += arena_depot_bytes(arena);
	}
	stats.cached += fronts_bytes();
	stats.large = stats.active - slab_bytes;
	stats.allocated = out + stats.large;
	stats.allocated -= min_size(stats.allocated, stats.cached);
	stats.dirty += magazines_dirty_bytes();
	stats.metadata = base_bytes() + magazines_bytes();
	stats.mapped = chunks_mapped_bytes();
	return stats;
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
