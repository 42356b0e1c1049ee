// Moving objects out of sparse slabs, so that these become free: the cure for slabs that a few long-lived objects hold.
//
// A bin serves from its lowest slab first, so the sparse slab with the highest address is emptied and its objects go
// down. While a slab is being emptied one of its free buffers is taken, lest it be destroyed under the callback.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "base/base.h"
#include "cache/objects.h"
#include "cache/slabs.h"
#include "cache/table.h"

struct evacuation {
	struct vmag_cache *cache;
	vmag_move_t *move;
	void *to;  // a constructed object, the next target; NULL: none yet
	size_t moved;
	bool done; // there is no better place any more
};

// At most half full, and with more than one free buffer, so that taking one does not fill it.
static bool is_candidate(const struct vmag_cache *cache, struct cache_slab *head)
{
	const struct slab *slab = cache_slab_body(head);
	uint32_t buffers = cache->bin.shape.buffers, unused = slab->run.free_count;

	return unused < buffers && unused > 1 && unused >= buffers / 2;
}

// The highest `most` of those that are sparse now: to look for each at all slabs would be too much, where these are many.
static void find_sparse(struct vmag_cache *cache, struct cache_slab **sparse, unsigned most)
{
	unsigned count = 0;

	mutex_lock(&cache->bin.lock);
	for (struct cache_slab *head = cache->slabs; head != NULL; head = head->next) {
		unsigned at = 0;

		if (!is_candidate(cache, head) || (count == most && head->start < sparse[0]->start))
			continue;
		if (count < most) {
			for (at = count++; at > 0 && sparse[at - 1]->start > head->start; at--)
				sparse[at] = sparse[at - 1];
		} else
			for (; at + 1 < count && sparse[at + 1]->start < head->start; at++)
				sparse[at] = sparse[at + 1];
		sparse[at] = head;
	}
	cache->sparse = sparse;
	cache->sparse_count = count;
	mutex_unlock(&cache->bin.lock);
}

static void forget_sparse(struct vmag_cache *cache)
{
	mutex_lock(&cache->bin.lock);
	cache->sparse_count = 0;
	mutex_unlock(&cache->bin.lock);
}

static struct slab *highest_sparse(struct vmag_cache *cache)
{
	while (cache->sparse_count > 0) {
		struct cache_slab *head = cache->sparse[--cache->sparse_count];

		if (head != NULL && is_candidate(cache, head))
			return cache_slab_body(head);
	}
	return NULL;
}

static size_t bitmap_words(const struct vmag_cache *cache)
{
	return ((size_t)cache->bin.shape.buffers + 63) / 64;
}

// Takes the slab's last free buffer.
static void *hold(struct vmag_cache *cache, struct slab *slab)
{
	size_t word = bitmap_words(cache);
	unsigned bit;

	while (slab->bitmap[--word] == 0)
		;
	bit = lg_floor(slab->bitmap[word]);
	slab->bitmap[word] &= ~(1ull << bit);
	slab->run.free_count--;
	cache->bin.free_buffers--;
	cache->bin.filled++;
	return slab_buffer(slab, &cache->bin.shape, word * 64 + bit);
}

// Takes the next slab to empty, and a copy of its bitmap. NULL: there is none.
static struct slab *begin(struct vmag_cache *cache, uint64_t *unused, void **held)
{
	struct slab *slab;

	mutex_lock(&cache->bin.lock);
	slab = highest_sparse(cache);
	if (slab != NULL) {
		*held = hold(cache, slab);
		memcpy(unused, slab->bitmap, bitmap_words(cache) * sizeof *unused);
	}
	mutex_unlock(&cache->bin.lock);
	return slab;
}

static void put_back(struct vmag_cache *cache, void *buffer)
{
	size_t done;

	bin_drain(&cache->bin, &buffer, 1, &done);
}

// A target below the slab. Without one nothing can be gained any more.
static bool find_target(struct evacuation *run, const struct slab *slab)
{
	struct vmag_cache *cache = run->cache;
	void *buffer;

	if (run->to != NULL && (uintptr_t)run->to < run_start(&slab->run))
		return true;
	run->done = true;
	if (run->to != NULL || bin_fill(&cache->bin, &buffer, 1) == 0)
		return false;
	if ((uintptr_t)buffer > run_start(&slab->run) ||
	    (cache->constructor != NULL && cache->constructor(buffer, cache->argument, VMAG_NOSLEEP) != 0)) {
		put_back(cache, buffer);
		return false;
	}
	run->done = false;
	run->to = buffer;
	return true;
}

// False: the slab cannot be emptied.
static bool move_one(struct evacuation *run, void *from)
{
	struct vmag_cache *cache = run->cache;

	if (bin_probe(&cache->bin, from) != BIN_OK) // freed meanwhile
		return true;
	switch (run->move(from, run->to, cache->object_bytes, cache->argument)) {
	case VMAG_MOVE_YES:
		caches_tell_moved(from, run->to);
		run->to = NULL;
		run->moved++;
		cache_drain(cache, &from, 1);
		return true;
	case VMAG_MOVE_DONT_NEED:
		caches_tell_moved(from, NULL);
		cache_drain(cache, &from, 1);
		return true;
	case VMAG_MOVE_NO:
		return false;
	default:
		return true;
	}
}

static void evacuate(struct evacuation *run, const struct slab *slab, const uint64_t *unused, const void *held)
{
	const struct slab_shape *shape = &run->cache->bin.shape;

	for (size_t i = 0; i < shape->buffers; i++) {
		void *from = slab_buffer(slab, shape, i);

		if (unused[i / 64] >> i % 64 & 1 || from == held)
			continue;
		if (!find_target(run, slab) || !move_one(run, from))
			return;
	}
}

size_t cache_consolidate(struct vmag_cache *cache, unsigned slabs)
{
	struct evacuation run = { .cache = cache, .move = atomic_load(&cache->move) };
	size_t bytes = bitmap_words(cache) * sizeof(uint64_t) + slabs * sizeof(struct cache_slab *);
	struct cache_slab **sparse;
	uint64_t *unused = NULL;
	struct slab *slab;
	void *held;

	if (run.move == NULL || atomic_exchange(&cache->moving, true))
		return 0;
	sparse = base_alloc(bytes);
	cache_carry(cache);
	if (sparse != NULL) {
		unused = (uint64_t *)(sparse + slabs);
		find_sparse(cache, sparse, slabs);
	}
	while (sparse != NULL && !run.done && (slab = begin(cache, unused, &held)) != NULL) {
		evacuate(&run, slab, unused, held);
		put_back(cache, held);
	}
	if (run.to != NULL)
		cache_drain(cache, &run.to, 1);
	cache_carried(cache);
	if (sparse != NULL) {
		forget_sparse(cache);
		base_free(sparse, bytes);
	}
	atomic_fetch_add_explicit(&cache->moves, run.moved, memory_order_relaxed);
	atomic_store(&cache->moving, false);
	return run.moved;
}
