// Table of all object caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/table.h"

#include "cache/cpu.h"
#include "cache/front.h"
#include "cache/objects.h"
#include "cache/slabs.h"
#include "cache/update.h"
#include "guard/guarded.h"
#include "guard/report.h"
#include "os/clock.h"
#include "vmag/format.h"
#include "vmem/resource.h"

enum { UNPIN_WAIT_MS = 10 };

static struct {
	struct mutex lock;
	// Written under lock.
	struct vmag_cache *_Atomic by_id[CACHES_MOST];
	void *_Atomic roots[CACHES_MOST]; // of the caches' sources, by id, for who looks for those of one: that happens at each allocation that finds no room
	uint64_t taken[CACHES_MOST / 64]; // ids
	uint64_t number;
} table = { .lock = MUTEX_INIT(RANK_CACHES) };

// Written under the lock: one above the highest id that was ever taken. Apart: every program reads it at its end (layout/).
static _Atomic unsigned ids_end;

// Constant after caches_init. Apart: it is written at each start (layout/).
static struct {
	bool (*trim)(void);
	void (*expect)(size_t bytes);
	void (*moved)(const void *from, const void *to);
} heap_calls;

void caches_init(bool (*trim)(void), void (*expect)(size_t bytes), void (*moved)(const void *from, const void *to))
{
	heap_calls.trim = trim;
	heap_calls.expect = expect;
	heap_calls.moved = moved;
	cache_fronts_init();
}

bool caches_trim_heap(void)
{
	return heap_calls.trim != NULL && heap_calls.trim();
}

void caches_expect_garbage(size_t bytes)
{
	if (heap_calls.expect != NULL)
		heap_calls.expect(bytes);
}

void caches_tell_moved(const void *from, const void *to)
{
	if (heap_calls.moved != NULL)
		heap_calls.moved(from, to);
}

// CACHES_MOST when all are taken.
static unsigned lowest_free_id(void)
{
	for (unsigned word = 0; word < CACHES_MOST / 64; word++)
		if (~table.taken[word] != 0)
			return word * 64 + first_bit(~table.taken[word]);
	return CACHES_MOST;
}

static void reap_for(struct vmag_vmem *root);

bool caches_enter(struct vmag_cache *cache)
{
	unsigned id;

	mutex_lock(&table.lock);
	if (caches_end() == 0)
		pages_init(&cache_pages, "caches"); // not before: few programs have caches
	__atomic_store_n(&resource_shortage, reap_for, __ATOMIC_RELAXED);
	cache_fronts_open();
	table.taken[(CACHE_FAST_IDS - 1) / 64] |= 1ull << (CACHE_FAST_IDS - 1) % 64;
	id = lowest_free_id();
	if (id < CACHES_MOST) {
		table.taken[id / 64] |= 1ull << id % 64;
		cache->id = id;
		cache->number = ++table.number;
		cache->fast_place = cache_fast_place(id);
		atomic_store_explicit(&table.roots[id], cache->source.root, memory_order_relaxed);
		atomic_store_explicit(&table.by_id[id], cache, memory_order_release);
		if (id >= atomic_load_explicit(&ids_end, memory_order_relaxed))
			atomic_store_explicit(&ids_end, id + 1, memory_order_release);
	}
	mutex_unlock(&table.lock);
	if (cpu_nowhere != NULL && id < CACHES_MOST)
		processors_open(processor_slot_of_cache(id));
	return id < CACHES_MOST;
}

void caches_leave(struct vmag_cache *cache)
{
	uint32_t pins;

	mutex_lock(&table.lock);
	cache->leaving = true;
	mutex_unlock(&table.lock);
	while ((pins = atomic_load(&cache->pins)) != 0)
		os_word_wait(&cache->pins, pins, UNPIN_WAIT_MS);
}

void caches_remove(struct vmag_cache *cache)
{
	mutex_lock(&table.lock);
	atomic_store_explicit(&table.by_id[cache->id], NULL, memory_order_relaxed);
	mutex_unlock(&table.lock);
}

void caches_free_id(unsigned id)
{
	mutex_lock(&table.lock);
	table.taken[id / 64] &= ~(1ull << id % 64);
	mutex_unlock(&table.lock);
}

struct vmag_cache *cache_of_id(unsigned id)
{
	return atomic_load_explicit(&table.by_id[id], memory_order_acquire);
}

struct vmag_cache *cache_pin(unsigned id)
{
	struct vmag_cache *cache;

	if (cache_of_id(id) == NULL)
		return NULL;
	mutex_lock(&table.lock);
	cache = cache_of_id(id);
	if (cache != NULL && cache->leaving)
		cache = NULL;
	if (cache != NULL)
		atomic_fetch_add(&cache->pins, 1);
	mutex_unlock(&table.lock);
	return cache;
}

// A child of fork that was called amid a callback finds no pins, its own neither.
__attribute__((noinline)) void cache_unpin(struct vmag_cache *cache)
{
	uint32_t pins = atomic_load(&cache->pins);

	while (pins != 0 && !atomic_compare_exchange_weak(&cache->pins, &pins, pins - 1))
		;
}

unsigned caches_end(void)
{
	return atomic_load_explicit(&ids_end, memory_order_acquire);
}

void cache_expect_live(const struct vmag_cache *cache, const char *call)
{
	if (UNLIKELY(cache->id >= CACHES_MOST || (cache_of_id(cache->id) != cache && !cache->leaving))) // the last destructors run when it is out
		guard_report(call, cache, "not an object cache, or a destroyed one", 0);
}

static void call_pinned(unsigned id, void (*function)(void *argument, struct vmag_cache *cache), void *argument)
{
	struct vmag_cache *cache = cache_pin(id);

	if (cache == NULL)
		return;
	function(argument, cache);
	cache_unpin(cache);
}

void caches_each(void (*function)(void *argument, struct vmag_cache *cache), void *argument)
{
	for (unsigned id = 0; id < caches_end(); id++)
		call_pinned(id, function, argument);
}

// `root` NULL: of all. The newest first, for they may have their slabs from older ones.
static void each_of(void *root, void (*function)(void *root, struct vmag_cache *cache))
{
	for (unsigned id = caches_end(); id-- > 0;)
		if (root == NULL || atomic_load_explicit(&table.roots[id], memory_order_relaxed) == root)
			call_pinned(id, function, root);
}

static void reclaim(void *root, struct vmag_cache *cache)
{
	if ((root == NULL || cache->source.root == root) && !(cache->flags & VMAG_CACHE_QUANTUM)) // the id may be another's by now
		cache_reclaim(cache);
}

// Last: others give slabs back to them.
static void reap_quantum(void *root, struct vmag_cache *cache)
{
	if ((root == NULL || cache->source.root == root) && (cache->flags & VMAG_CACHE_QUANTUM))
		cache_reap(cache);
}

static void reap_quietly(void *unused, struct vmag_cache *cache)
{
	(void)unused;
	if (cache_is_plain(cache) && cache->source.import == NULL)
		cache_reap(cache);
}

void caches_verify(void)
{
	caches_each(reap_quietly, NULL);
}

bool caches_reap(bool callbacks, void *root)
{
	if (caches_end() == 0)
		return false;
	if (root == NULL)
		cache_fronts_flush();
	each_of(root, callbacks ? reclaim : reap_quietly);
	if (callbacks)
		each_of(root, reap_quantum);
	return root == NULL && pages_purge(&cache_pages, 0);
}

static void reap_for(struct vmag_vmem *root)
{
	guard_release_held("vmem_alloc");
	caches_reap(true, root);
}

static void update(void *now_ms, struct vmag_cache *cache)
{
	cache_update(cache, *(const uint64_t *)now_ms);
}

bool caches_step(uint64_t now_ms)
{
	if (caches_end() == 0)
		return false;
	bool more = caches_cpu_tidy(now_ms);

	caches_each(update, &now_ms);
	pages_decay(&cache_pages, now_ms);
	return more || caches_garbage() > 0;
}

static void add_garbage(void *bytes, struct vmag_cache *cache)
{
	*(size_t *)bytes += cache_garbage(cache);
}

size_t caches_garbage(void)
{
	if (caches_end() == 0)
		return 0;
	size_t bytes = pages_garbage(&cache_pages);

	caches_each(add_garbage, &bytes);
	return bytes;
}

static void each(void (*function)(struct vmag_cache *cache))
{
	for (unsigned id = 0; id < caches_end(); id++)
		if (cache_of_id(id) != NULL)
			function(cache_of_id(id));
}

static void lock_depot(struct vmag_cache *cache)
{
	mutex_fork_lock(&cache->depot.lock);
}

static void lock_bin(struct vmag_cache *cache)
{
	mutex_fork_lock(&cache->bin.lock);
}

static void unlock_both(struct vmag_cache *cache)
{
	mutex_fork_unlock(&cache->bin.lock);
	mutex_fork_unlock(&cache->depot.lock);
}

// The threads that were at work in the cache are gone; their magazines too.
static void alone_in_child(struct vmag_cache *cache)
{
	atomic_store(&cache->pins, 0);
	atomic_store(&cache->sleepers, 0);
	if (atomic_load(&cache->reclaimer) != &cache_words) // this thread goes on in it
		atomic_store(&cache->reclaimer, NULL);
	atomic_store(&cache->moving, false);
	atomic_store(&cache->carriers, 0);
	atomic_store(&cache->lost_rounds, true);
}

void caches_fork_lock_table(void)
{
	mutex_fork_lock(&table.lock);
	cache_fronts_fork_lock();
}

void caches_fork_lock_depots(void)
{
	each(lock_depot);
}

void caches_fork_lock_bins(void)
{
	each(lock_bin);
}

void caches_fork_lock_pages(void)
{
	if (caches_end() > 0)
		mutex_fork_lock(&cache_pages.runs.lock);
}

void caches_fork_lock_extents(void)
{
	if (caches_end() > 0)
		mutex_fork_lock(&cache_pages.extents.lock);
}

void caches_fork_done(bool child)
{
	if (caches_end() > 0) {
		mutex_fork_unlock(&cache_pages.extents.lock);
		mutex_fork_unlock(&cache_pages.runs.lock);
	}
	each(unlock_both);
	if (child) {
		each(alone_in_child);
		atomic_store(&cache_pages.decaying, false);
	}
	cache_fronts_fork_done(child);
	mutex_fork_unlock(&table.lock);
}

COLD void caches_tell(struct vmag_root *root)
{
	root->caches = (uintptr_t)table.by_id;
	root->caches_end = (uintptr_t)&ids_end;
	root->cache_name = offsetof(struct vmag_cache, name);
	root->cache_name_bytes = CACHE_NAME_BYTES;
	root->cache_object_bytes = offsetof(struct vmag_cache, object_bytes);
	root->cache_bin = offsetof(struct vmag_cache, bin);
	root->cache_depot = offsetof(struct vmag_cache, depot);
}
