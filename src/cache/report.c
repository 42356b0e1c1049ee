// What is known of a cache: figures, and the objects that the program has.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "base/base.h"
#include "cache/front.h"
#include "cache/slabs.h"

static void slab_figures(struct vmag_cache *cache, struct vmag_cache_stats *stats)
{
	struct bin *bin = &cache->bin;

	mutex_lock(&bin->lock);
	stats->slabs = bin->slabs;
	stats->buffers = bin->slabs * bin->shape.buffers;
	stats->in_use = stats->buffers - bin->free_buffers;
	stats->slab_allocs = bin->filled;
	stats->slab_frees = bin->drained;
	stats->slab_creates = cache->creates;
	stats->slab_destroys = cache->destroys;
	mutex_unlock(&bin->lock);
}

static void depot_figures(struct vmag_cache *cache, struct vmag_cache_stats *stats)
{
	struct depot *depot = &cache->depot;

	mutex_lock(&depot->lock);
	stats->cached = depot->rounds;
	stats->full_magazines = depot->full.length;
	stats->empty_magazines = depot->empty.length;
	stats->depot_takes = depot->takes;
	stats->depot_puts = depot->puts;
	stats->depot_contentions = depot->contentions;
	mutex_unlock(&depot->lock);
}

void cache_stats(struct vmag_cache *cache, struct vmag_cache_stats *stats)
{
	*stats = (struct vmag_cache_stats){
		.object_bytes = cache->object_bytes,
		.chunk_bytes = cache->bin.shape.size,
		.align = cache->align,
		.slab_bytes = cache->bin.shape.slab_bytes,
		.slab_objects = cache->bin.shape.buffers,
		.slab_colours = cache->colours,
		.magazine_rounds = cache->rounds,
		.alloc_failures = cache->alloc_failures,
		.constructor_failures = cache->constructor_failures,
		.reaps = cache->reaps,
		.moves = cache->moves,
		.magazine_resizes = cache->resizes,
	};
	depot_figures(cache, stats);
	stats->cached += cache_fronts_rounds(cache, NULL, SIZE_MAX);
	slab_figures(cache, stats);
	stats->in_use -= min_size(stats->in_use, stats->cached);
}

// Shell sort: qsort may allocate.
static void sort(void **at, size_t count)
{
	for (size_t gap = count / 2; gap > 0; gap /= 2)
		for (size_t i = gap; i < count; i++) {
			void *moving = at[i];
			size_t j = i;

			for (; j >= gap && (uintptr_t)at[j - gap] > (uintptr_t)moving; j -= gap)
				at[j] = at[j - gap];
			at[j] = moving;
		}
}

static bool contains(void *const *sorted, size_t count, const void *object)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if ((uintptr_t)sorted[middle] < (uintptr_t)object)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && sorted[low] == object;
}

// Copies the rounds of the depot's magazines.
static size_t depot_rounds(struct vmag_cache *cache, void **out, size_t most)
{
	size_t count = 0;

	mutex_lock(&cache->depot.lock);
	for (const struct magazine *at = cache->depot.full.first; at != NULL; at = at->next)
		for (uint32_t i = 0; i < at->rounds && count < most; i++)
			out[count++] = at->round[i];
	mutex_unlock(&cache->depot.lock);
	return count;
}

static size_t used_buffers(struct vmag_cache *cache, void **out, size_t most)
{
	const struct slab_shape *shape = &cache->bin.shape;
	size_t count = 0;

	mutex_lock(&cache->bin.lock);
	for (struct cache_slab *head = cache->slabs; head != NULL; head = head->next) {
		const struct slab *slab = cache_slab_body(head);

		for (size_t i = 0; i < shape->buffers && count < most; i++)
			if (!(slab->bitmap[i / 64] >> i % 64 & 1))
				out[count++] = slab_buffer(slab, shape, i);
	}
	mutex_unlock(&cache->bin.lock);
	return count;
}

static size_t buffers_out(struct vmag_cache *cache)
{
	struct vmag_cache_stats stats;

	slab_figures(cache, &stats);
	return stats.in_use;
}

// Buffers that are out of their slabs, without those in magazines.
bool cache_walk(struct vmag_cache *cache, void (*function)(void *argument, void *object), void *argument)
{
	size_t most = buffers_out(cache) + 1, bytes = most * sizeof(void *), cached;
	void **rounds = base_alloc_table(bytes), **objects = base_alloc_table(bytes);
	bool possible = rounds != NULL && objects != NULL;

	if (possible) {
		size_t count = used_buffers(cache, objects, most);

		cached = depot_rounds(cache, rounds, most);
		cached += cache_fronts_rounds(cache, rounds + cached, most - cached);
		sort(rounds, cached);
		for (size_t i = 0; i < count; i++)
			if (!contains(rounds, cached, objects[i]))
				function(argument, objects[i]);
	}
	if (rounds != NULL)
		base_free_table(rounds, bytes);
	if (objects != NULL)
		base_free_table(objects, bytes);
	return possible;
}
