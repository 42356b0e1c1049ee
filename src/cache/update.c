// Updates of object caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/update.h"

#include "cache/objects.h"
#include "conf/umem_options.h"

enum {
	PLAIN_MS = 500,
	CONSTRUCTED_MS = 5000,
	VISITS_A_SECOND = 2000, // of the depot, from which on magazines grow
	MS_A_MEETING = 2000,    // of threads there, which is what may pass without their growing
	QUIET_VISITS = 8,       // in an update, at most, that count as none
	QUIET_UPDATES = 8,      // in a row, after which magazines shrink
	QUIET_AFTER_MEETING = 64,  // the same when threads have met: that they do so seldom tells little
	QUIET_UPDATES_MOST = 1024, // and where magazines had to grow again each time
	SLABS_WORTH_MOVING = 8, // fewer are not consolidated by themselves
	SLABS_A_PASS = 12,      // emptied in an update, at most
};

size_t cache_garbage(const struct vmag_cache *cache)
{
	size_t rounds = __atomic_load_n(&cache->depot.rounds, __ATOMIC_RELAXED);
	bool empty = __atomic_load_n(&cache->bin.empty, __ATOMIC_RELAXED) != NULL;

	return rounds * cache->bin.shape.size + (empty ? cache->bin.shape.slab_bytes : 0);
}

static void resize(struct vmag_cache *cache, size_t rounds)
{
	if (rounds == atomic_load_explicit(&cache->rounds, memory_order_relaxed))
		return;
	atomic_store_explicit(&cache->rounds, (unsigned)rounds, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->resizes, 1, memory_order_relaxed);
}

// What had to grow again after it had shrunk shrinks later the next time.
static void grow(struct vmag_cache *cache, unsigned rounds, unsigned most)
{
	cache->quiet = 0;
	if (rounds >= most)
		return;
	if (cache->shrunk)
		cache->patience = (unsigned)min_size(cache->patience * 2u, QUIET_UPDATES_MOST);
	cache->shrunk = false;
	resize(cache, min_size(rounds * 2 + MAGAZINE_OVERHEAD, most));
}

static void note_quiet(struct vmag_cache *cache, unsigned rounds)
{
	cache->patience = (unsigned)max_size(cache->patience, QUIET_UPDATES);
	if (++cache->quiet < cache->patience)
		return;
	cache->quiet = 0;
	cache->shrunk = true;
	resize(cache, max_size(rounds > MAGAZINE_OVERHEAD ? (rounds - MAGAZINE_OVERHEAD) / 2 : 0, cache->least_rounds));
}

// Whether threads meet at the depot more than once in MS_A_MEETING (2001, §3.4: a rate above a fixed threshold).
static bool meet_often(struct vmag_cache *cache, uint64_t meetings, uint64_t elapsed_ms)
{
	meetings = meetings > umem_options.max_contention ? meetings - umem_options.max_contention : 0;
	cache->meeting_ms -= (unsigned)min_size(elapsed_ms, cache->meeting_ms);
	cache->meeting_ms += (unsigned)min_size(meetings, 2) * MS_A_MEETING;
	if (cache->meeting_ms <= MS_A_MEETING)
		return false;
	cache->meeting_ms = 0;
	return true;
}

// Magazines grow when threads come to the depot often, and further when they meet at its lock; they shrink when hardly anybody comes
// (the paper only grows). Sizes are those that fill a magazine's memory. Between growing and shrinking lies a factor of
// hundreds, and where that is not enough, patience: so a size settles.
static void tune(struct vmag_cache *cache, uint64_t elapsed_ms)
{
	unsigned rounds = atomic_load_explicit(&cache->rounds, memory_order_relaxed);
	uint64_t visits, contentions;

	mutex_lock(&cache->depot.lock);
	visits = cache->depot.takes + cache->depot.puts;
	contentions = cache->depot.contentions;
	mutex_unlock(&cache->depot.lock);
	if (meet_often(cache, contentions - cache->contentions_before, elapsed_ms)) {
		grow(cache, rounds, cache->contended_rounds);
		cache->patience = (unsigned)max_size(cache->patience, QUIET_AFTER_MEETING);
	} else if ((visits - cache->visits_before) * 1000 > VISITS_A_SECOND * elapsed_ms)
		grow(cache, rounds, cache->most_rounds);
	else if (visits - cache->visits_before > QUIET_VISITS)
		cache->quiet = 0;
	else
		note_quiet(cache, rounds);
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
