// Updates of object caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/update.h"

#include "cache/objects.h"
#include "conf/umem_options.h"

enum {
	PLAIN_MS = 500,
	CONSTRUCTED_MS = 5000,
	VISITS_A_SECOND = 2000, // of the depot, from which on magazines grow
	QUIET_VISITS = 8,       // in an update, at most, that count as none
	QUIET_UPDATES = 8,      // in a row, after which magazines shrink
	SLABS_WORTH_MOVING = 8, // fewer are not consolidated by themselves
	SLABS_A_PASS = 12,      // emptied in an update, at most
};

size_t cache_garbage(const struct vmag_cache *cache)
{
	size_t rounds = __atomic_load_n(&cache->depot.rounds, __ATOMIC_RELAXED);
	bool empty = __atomic_load_n(&cache->bin.empty, __ATOMIC_RELAXED) != NULL;

	return rounds * cache->bin.shape.size + (empty ? cache->bin.shape.slab_bytes : 0);
}

static void resize(struct vmag_cache *cache, unsigned rounds)
{
	unsigned old = atomic_load_explicit(&cache->rounds, memory_order_relaxed);

	rounds = (unsigned)max_size(min_size(rounds, cache->most_rounds), cache->least_rounds);
	if (rounds == old)
		return;
	atomic_store_explicit(&cache->rounds, rounds, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->resizes, 1, memory_order_relaxed);
}

// Magazines grow when threads meet at the depot's lock, or come there often; they shrink when hardly anybody comes (the paper
// only grows). Sizes are those that fill a magazine's memory. Between growing and shrinking lies a factor of hundreds, so
// that a size settles.
static void tune(struct vmag_cache *cache, uint64_t elapsed_ms)
{
	unsigned rounds = atomic_load_explicit(&cache->rounds, memory_order_relaxed);
	uint64_t visits, contentions;

	mutex_lock(&cache->depot.lock);
	visits = cache->depot.takes + cache->depot.puts;
	contentions = cache->depot.contentions;
	mutex_unlock(&cache->depot.lock);
	if (contentions - cache->contentions_before > umem_options.max_contention ||
	    (visits - cache->visits_before) * 1000 > VISITS_A_SECOND * elapsed_ms) {
		cache->quiet = 0;
		resize(cache, rounds * 2 + MAGAZINE_OVERHEAD);
	} else if (visits - cache->visits_before > QUIET_VISITS) {
		cache->quiet = 0;
	} else if (++cache->quiet == QUIET_UPDATES) {
		cache->quiet = 0;
		resize(cache, rounds > MAGAZINE_OVERHEAD ? (rounds - MAGAZINE_OVERHEAD) / 2 : 0);
	}
	cache->visits_before = visits;
	cache->contentions_before = contentions;
}

static bool is_sparse(const struct vmag_cache *cache)
{
	size_t slabs = __atomic_load_n(&cache->bin.slabs, __ATOMIC_RELAXED);
	size_t unused = __atomic_load_n(&cache->bin.free_buffers, __ATOMIC_RELAXED);

	return slabs >= SLABS_WORTH_MOVING && unused > slabs * cache->bin.shape.buffers / 4;
}

void cache_update(struct vmag_cache *cache, uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&cache->updated_at, memory_order_relaxed);
	struct magazine *chain;

	if ((int64_t)(now_ms - last) < (cache_is_plain(cache) ? PLAIN_MS : CONSTRUCTED_MS) ||
	    !atomic_compare_exchange_strong_explicit(&cache->updated_at, &last, now_ms, memory_order_relaxed, memory_order_relaxed))
		return;
	tune(cache, now_ms - last);
	chain = depot_reap(&cache->depot, false);
	if (chain != NULL)
		atomic_fetch_add_explicit(&cache->reaps, 1, memory_order_relaxed);
	cache_drain_chain(cache, chain);
	bin_trim(&cache->bin, false);
	if (is_sparse(cache))
		cache_consolidate(cache, SLABS_A_PASS);
}
