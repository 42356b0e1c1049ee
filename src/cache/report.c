// What is known of a cache: figures, and the objects that the program has.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "base/base.h"
#include "cache/front.h"
#include "cache/slabs.h"
#include "os/clock.h"

enum { WALK_TRIES = 500, WALK_WAIT_MS = 2 };

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

// Buffers that are out of their slabs, and rounds, of which some may be there twice.
struct copies {
	size_t most, count, cached;
	void **objects, **rounds;
};

// As magazines go that are given back: from fronts to the depot to slabs.
static void copy(struct vmag_cache *cache, struct copies *copies)
{
	size_t most = 2 * copies->most;

	copies->cached = cache_fronts_rounds(cache, copies->rounds, most);
	copies->cached += depot_rounds(cache, copies->rounds + copies->cached, most - copies->cached);
	copies->count = used_buffers(cache, copies->objects, copies->most);
}

// False: somebody carries something all the time, this thread perhaps: it is called from a destructor or from move.
static bool copy_at_rest(struct vmag_cache *cache, struct copies *copies)
{
	for (int tries = 0; tries < WALK_TRIES; tries++) {
		uint32_t carries = atomic_load(&cache->carries), carriers = atomic_load(&cache->carriers);

		if (carriers == 0)
			copy(cache, copies);
		if (carriers == 0 && atomic_load(&cache->carries) == carries)
			return true;
		os_word_wait(&cache->carriers, carriers, WALK_WAIT_MS);
	}
	return false;
}

// Buffers that are out of their slabs, without those in magazines.
bool cache_walk(struct vmag_cache *cache, void (*function)(void *argument, void *object), void *argument)
{
	struct copies copies = { .most = buffers_out(cache) + 1 };
	size_t bytes = copies.most * sizeof(void *);
	bool possible;

	copies.objects = base_alloc_table(bytes);
	copies.rounds = base_alloc_table(2 * bytes);
	possible = copies.objects != NULL && copies.rounds != NULL && cache_fronts_can_be_read(cache) && copy_at_rest(cache, &copies);
	if (possible) {
		sort(copies.rounds, copies.cached);
		for (size_t i = 0; i < copies.count; i++)
			if (!contains(copies.rounds, copies.cached, copies.objects[i]))
				function(argument, copies.objects[i]);
	}
	if (copies.rounds != NULL)
		base_free_table(copies.rounds, 2 * bytes);
	if (copies.objects != NULL)
		base_free_table(copies.objects, bytes);
	return possible;
}
