// Updates of object caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/update.h"

#include "cache/objects.h"
#include "conf/umem_options.h"

enum {
	TUNE_MS = 200,
	PLAIN_MS = 500,
	CONSTRUCTED_MS = 5000,
	VISITS_A_SECOND = 2000, // of the depot, from which on magazines grow
	MS_A_MEETING = 2000,    // of threads there, which is what may pass without their growing
	MEETINGS = 2,           // that are more than may pass, and
	MEETINGS_STEADY = 5,    // the same of a size that has served for
	STEADY_MS = 4000,       // so long: chance shall not end it
	QUIET_UPDATES = 8,      // in a row with less than a look of a front each, after which magazines shrink
	LOOKS_COUNTED = 16,     // between two updates, at most
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

static void grow(struct vmag_cache *cache, unsigned most)
{
	unsigned rounds = atomic_load_explicit(&cache->rounds, memory_order_relaxed);

	if (rounds >= most)
		return;
	cache->steady_ms = 0;
	resize(cache, min_size(rounds * 2 + MAGAZINE_OVERHEAD, most));
}

static void shrink(struct vmag_cache *cache)
{
	unsigned rounds = atomic_load_explicit(&cache->rounds, memory_order_relaxed);

	resize(cache, max_size(rounds > MAGAZINE_OVERHEAD ? (rounds - MAGAZINE_OVERHEAD) / 2 : 0, cache->least_rounds));
}

// Whether threads meet at the depot more than once in MS_A_MEETING (2001, §3.4: a rate above a fixed threshold).
static bool meet_often(struct vmag_cache *cache, uint64_t meetings, uint64_t elapsed_ms)
{
	unsigned enough = cache->steady_ms < STEADY_MS ? MEETINGS : MEETINGS_STEADY;

	meetings = meetings > umem_options.max_contention ? meetings - umem_options.max_contention : 0;
	cache->steady_ms = (unsigned)min_size(cache->steady_ms + elapsed_ms, STEADY_MS);
	cache->meeting_ms -= (unsigned)min_size(elapsed_ms, cache->meeting_ms);
	cache->meeting_ms += (unsigned)min_size(meetings, MEETINGS_STEADY) * MS_A_MEETING;
	if (cache->meeting_ms <= (enough - 1) * MS_A_MEETING)
		return false;
	cache->meeting_ms = 0;
	return true;
}

// Magazines grow when threads come to the depot often, and further when they meet at its lock. Sizes are those that fill a
// magazine's memory.
static void tune(struct vmag_cache *cache, uint64_t elapsed_ms)
{
	uint64_t visits, meetings;

	mutex_lock(&cache->depot.lock); // who waits long for it comes after others that were told later
	visits = cache->depot.takes + cache->depot.puts - cache->visits_before;
	meetings = cache->depot.contentions - cache->contentions_before;
	cache->visits_before += visits;
	cache->contentions_before += meetings;
	if (meet_often(cache, meetings, elapsed_ms))
		grow(cache, cache->contended_rounds);
	else if (visits * 1000 > VISITS_A_SECOND * elapsed_ms)
		grow(cache, cache->most_rounds);
	mutex_unlock(&cache->depot.lock);
}

// Magazines shrink when fronts hardly miss any more (the paper only grows). A load whose magazines have become so large that
// it seldom visits the depot still misses, and keeps them: what shrinks misses too little to grow again.
static void note_quiet(struct vmag_cache *cache, unsigned updates)
{
	unsigned looks = atomic_exchange_explicit(&cache->looks, 0, memory_order_relaxed);

	cache->quiet = looks >= updates ? 0 : cache->quiet + updates;
	if (cache->quiet < QUIET_UPDATES)
		return;
	cache->quiet = 0;
	shrink(cache);
}

void cache_note_look(struct vmag_cache *cache)
{
	if (atomic_load_explicit(&cache->looks, memory_order_relaxed) < LOOKS_COUNTED)
		atomic_fetch_add_explicit(&cache->looks, 1, memory_order_relaxed);
}

static bool is_sparse(const struct vmag_cache *cache)
{
	size_t slabs = __atomic_load_n(&cache->bin.slabs, __ATOMIC_RELAXED);
	size_t unused = __atomic_load_n(&cache->bin.free_buffers, __ATOMIC_RELAXED);

	return slabs >= SLABS_WORTH_MOVING && unused > slabs * cache->bin.shape.buffers / 4;
}

// Whether so much time has passed since `at`, which moves on; one thread is told so.
static bool is_due(_Atomic uint64_t *at, uint64_t now_ms, uint64_t after_ms, uint64_t *elapsed_ms)
{
	uint64_t last = atomic_load_explicit(at, memory_order_relaxed);

	*elapsed_ms = now_ms - last;
	return (int64_t)*elapsed_ms >= (int64_t)after_ms &&
	       atomic_compare_exchange_strong_explicit(at, &last, now_ms, memory_order_relaxed, memory_order_relaxed);
}

void cache_update(struct vmag_cache *cache, uint64_t now_ms)
{
	uint64_t period = cache_is_plain(cache) ? PLAIN_MS : CONSTRUCTED_MS, elapsed;

	if (is_due(&cache->tuned_at, now_ms, TUNE_MS, &elapsed))
		tune(cache, elapsed);
	if (!is_due(&cache->updated_at, now_ms, period, &elapsed))
		return;
	note_quiet(cache, (unsigned)min_size(elapsed / period, QUIET_UPDATES));
	if (cache_drain_depot(cache, false))
		atomic_fetch_add_explicit(&cache->reaps, 1, memory_order_relaxed);
	bin_trim(&cache->bin, false);
	if (is_sparse(cache))
		cache_consolidate(cache, SLABS_A_PASS);
}
