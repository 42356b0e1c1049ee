// Front of the object caches: a thread's table, reloading magazines, giving them back.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/front.h"

#include <string.h>

#include "base/base.h"
#include "cache/objects.h"
#include "cache/table.h"
#include "cache/update.h"
#include "os/clock.h"
#include "os/memory.h"
#include "os/thread.h"

enum {
	FIRST_TABLE = 16,     // caches in a thread's first table
	TIDY_MS = 500,        // a cache not used for this long gives its magazines to the depot
	MISSES_A_LOOK = 16,   // between looks at the clock
	FIRST_BATCH_BYTES = 2048,
};

static void *const closed_magazine[2] = { NULL, MAGAZINE_FULL };
#define CLOSED ((void **)(uintptr_t)&closed_magazine[1])

// What the tops of a thread past its end point to: no table is made again.
static void **const no_tops[1] = { NULL };
#define ENDED ((void ***)(uintptr_t)&no_tops[1])

struct cache_thread {
	struct cache_thread *next, *prev; // list of all, under its lock
	void ***tops;
	size_t count;
	uint64_t tidied_at; // ms
	uint32_t misses;
};

__thread struct cache_words cache_words;

static struct {
	struct mutex lock;
	struct cache_thread *first; // under lock
} threads = { .lock = MUTEX_INIT(RANK_CACHE_THREADS) };

static struct cache_thread *this_thread(void)
{
	return cache_words.tops == NULL ? NULL : (struct cache_thread *)(void *)cache_words.tops[-1];
}

static struct cache_front **fronts_of(const struct cache_thread *thread)
{
	return (struct cache_front **)(void *)(thread->tops + thread->count);
}

static size_t table_bytes(size_t count)
{
	return (1 + 2 * count) * sizeof(void *);
}

static struct cache_thread *thread_create(void)
{
	struct cache_thread *thread = base_alloc(sizeof *thread);

	if (thread == NULL)
		return NULL;
	memset(thread, 0, sizeof *thread);
	thread->tidied_at = os_clock_ms();
	return thread;
}

static void link_thread(struct cache_thread *thread)
{
	thread->next = threads.first;
	if (threads.first != NULL)
		threads.first->prev = thread;
	threads.first = thread;
}

static void unlink_thread(struct cache_thread *thread)
{
	if (thread->prev != NULL)
		thread->prev->next = thread->next;
	else
		threads.first = thread->next;
	if (thread->next != NULL)
		thread->next->prev = thread->prev;
}

// Under the list's lock, which keeps destroyers of caches out of the old table while it is copied.
static void table_install(struct cache_thread *thread, void ***tops, size_t count)
{
	struct cache_front **fronts = (struct cache_front **)(void *)(tops + count);

	tops[-1] = (void **)(void *)thread;
	for (size_t id = 0; id < count; id++) {
		tops[id] = id < thread->count ? thread->tops[id] : CLOSED;
		fronts[id] = id < thread->count ? fronts_of(thread)[id] : NULL;
	}
	thread->tops = tops;
	thread->count = count;
	cache_words.tops = tops;
	cache_words.count = count;
}

static bool table_grow(unsigned id)
{
	struct cache_thread *thread = this_thread(), *fresh = NULL;
	size_t count = FIRST_TABLE, old_count = thread == NULL ? 0 : thread->count;
	void ***table, ***old = thread == NULL ? NULL : thread->tops;

	if (cache_words.tops == ENDED)
		return false;
	while (count <= id)
		count *= 2;
	table = base_alloc_table(table_bytes(count));
	if (table != NULL && thread == NULL)
		thread = fresh = thread_create();
	if (table == NULL || thread == NULL) {
		if (table != NULL)
			base_free_table(table, table_bytes(count));
		return false;
	}
	mutex_lock(&threads.lock);
	table_install(thread, table + 1, count);
	if (fresh != NULL)
		link_thread(thread);
	mutex_unlock(&threads.lock);
	if (old != NULL)
		base_free_table(old - 1, table_bytes(old_count));
	if (fresh != NULL)
		os_thread_exit_value(OS_THREAD_END_CACHES, thread);
	return true;
}

static unsigned first_batch(const struct vmag_cache *cache)
{
	size_t rounds = FIRST_BATCH_BYTES / cache->bin.shape.size;

	return (unsigned)max_size(min_size(rounds, cache->least_rounds), 1);
}

struct cache_front *cache_front_get(struct vmag_cache *cache)
{
	struct cache_front *front;

	if (cache->flags & VMAG_CACHE_NOMAGAZINE)
		return NULL;
	if (cache->id >= cache_words.count && !table_grow(cache->id))
		return NULL;
	front = fronts_of(this_thread())[cache->id];
	if (front != NULL)
		return front;
	front = base_alloc(sizeof *front);
	if (front == NULL)
		return NULL;
	memset(front, 0, sizeof *front);
	front->batch = (uint16_t)first_batch(cache);
	fronts_of(this_thread())[cache->id] = front;
	return front;
}

static void load(const struct vmag_cache *cache, struct cache_front *front, struct magazine *magazine)
{
	front->loaded = magazine;
	front->capacity = magazine == NULL ? 0 : magazine->capacity;
	cache_words.tops[cache->id] = magazine == NULL ? CLOSED : magazine->round + magazine->rounds;
}

// The loaded magazine, its rounds counted; the cache is closed.
static struct magazine *unload(const struct vmag_cache *cache, struct cache_front *front)
{
	struct magazine *magazine = front->loaded;

	if (magazine != NULL)
		magazine->rounds = (uint32_t)(cache_words.tops[cache->id] - magazine->round);
	load(cache, front, NULL);
	return magazine;
}

static void keep_previous(struct cache_front *front, struct magazine *magazine)
{
	front->previous = magazine;
	front->previous_rounds = magazine == NULL ? 0 : magazine->rounds;
}

static void exchange(const struct vmag_cache *cache, struct cache_front *front, struct magazine *loaded)
{
	struct magazine *previous = front->previous;

	keep_previous(front, loaded);
	load(cache, front, previous);
}

static unsigned wanted_rounds(const struct vmag_cache *cache)
{
	return atomic_load_explicit(&cache->rounds, memory_order_relaxed);
}

static struct magazine *new_magazine(const struct vmag_cache *cache)
{
	return magazine_create(wanted_rounds(cache), 0);
}

// Magazines that are smaller than they should be are dropped when they come by empty.
static struct magazine *outgrown(const struct vmag_cache *cache, struct magazine *empty)
{
	if (empty == NULL || empty->capacity >= wanted_rounds(cache))
		return empty;
	magazine_destroy(empty);
	return NULL;
}

// Objects that need no constructor come in batches.
static bool fill(struct vmag_cache *cache, struct cache_front *front, struct magazine *magazine)
{
	size_t wanted = min_size(front->batch, magazine->capacity);
	size_t got = cache_buffers(cache, magazine->round, wanted);

	memmove(magazine->round, magazine->round + wanted - got, got * sizeof(void *));
	magazine->rounds = (uint32_t)got;
	front->batch = (uint16_t)min_size(front->batch * 2u, wanted_rounds(cache));
	load(cache, front, magazine);
	return got > 0;
}

// The alloc side of Figure 3.1b, up to the depot.
bool cache_front_refill(struct vmag_cache *cache, struct cache_front *front)
{
	struct magazine *loaded = unload(cache, front), *full;

	if (loaded != NULL && loaded->rounds > 0) {
		load(cache, front, loaded);
		return true;
	}
	if (front->previous != NULL && front->previous->rounds > 0) {
		exchange(cache, front, loaded);
		return true;
	}
	full = depot_take_full(&cache->depot, front->previous);
	if (full != NULL) {
		keep_previous(front, loaded);
		load(cache, front, full);
		return true;
	}
	loaded = outgrown(cache, loaded);
	if (loaded == NULL && cache_is_plain(cache))
		loaded = new_magazine(cache);
	load(cache, front, loaded);
	return loaded != NULL && cache_is_plain(cache) && fill(cache, front, loaded);
}

// The free side: it is here that magazines are made.
bool cache_front_make_room(struct vmag_cache *cache, struct cache_front *front)
{
	struct magazine *loaded = unload(cache, front), *previous = front->previous, *empty;

	if (loaded != NULL && loaded->rounds < loaded->capacity) {
		load(cache, front, loaded);
		return true;
	}
	if (previous != NULL && previous->rounds == 0) {
		exchange(cache, front, loaded);
		return true;
	}
	empty = loaded == NULL || previous == NULL ? new_magazine(cache) :
						     outgrown(cache, depot_take_empty(&cache->depot, previous));
	if (previous != NULL && loaded != NULL) {
		keep_previous(front, NULL); // it is in the depot
		empty = empty != NULL ? empty : new_magazine(cache);
	}
	if (empty == NULL) {
		load(cache, front, loaded);
		return false;
	}
	if (loaded != NULL)
		keep_previous(front, loaded);
	load(cache, front, empty);
	return true;
}

// Moves rounds to another magazine as long as there are some and it has room.
static void pour(struct magazine *from, struct magazine *to)
{
	while (from->rounds > 0 && to->rounds < to->capacity)
		to->round[to->rounds++] = from->round[--from->rounds];
}

void cache_leave_magazine(struct vmag_cache *cache, struct magazine *magazine)
{
	struct magazine *other = NULL;

	if (magazine->rounds > 0 && magazine->rounds < magazine->capacity)
		other = depot_take_full(&cache->depot, NULL);
	if (other != NULL) {
		pour(magazine, other);
		depot_put(&cache->depot, other);
	}
	depot_put(&cache->depot, magazine);
}

static void leave_both(struct vmag_cache *cache, struct magazine *loaded, struct magazine *previous)
{
	if (loaded != NULL)
		cache_leave_magazine(cache, loaded);
	if (previous != NULL)
		cache_leave_magazine(cache, previous);
}

static void flush(struct vmag_cache *cache, struct cache_front *front)
{
	struct magazine *previous = front->previous;

	keep_previous(front, NULL);
	leave_both(cache, unload(cache, front), previous);
}

static struct cache_front *front_if_any(unsigned id)
{
	return id < cache_words.count ? fronts_of(this_thread())[id] : NULL;
}

void cache_front_flush(struct vmag_cache *cache)
{
	mutex_lock(&threads.lock);
	if (front_if_any(cache->id) != NULL)
		flush(cache, front_if_any(cache->id));
	mutex_unlock(&threads.lock);
}

// First the previous magazine, then the loaded one (2011, exponential decay).
static void tidy_one(struct vmag_cache *cache, struct cache_front *front)
{
	void **top = cache_words.tops[cache->id];
	struct magazine *previous = front->previous;

	if (top == front->seen && previous != NULL) {
		keep_previous(front, NULL);
		cache_leave_magazine(cache, previous);
	} else if (top == front->seen && front->loaded != NULL)
		flush(cache, front);
	front->seen = cache_words.tops[cache->id];
}

// For each cache of which this thread has magazines. Under the list's lock, as cache_front_flush: somebody may be destroying
// a cache that this thread does not use any more.
static void each_own(void (*function)(struct vmag_cache *cache, struct cache_front *front))
{
	for (unsigned id = 0; id < cache_words.count; id++) {
		struct vmag_cache *cache;

		if (front_if_any(id) == NULL)
			continue;
		mutex_lock(&threads.lock);
		cache = cache_of_id(id);
		if (cache != NULL && front_if_any(id) != NULL)
			function(cache, front_if_any(id));
		mutex_unlock(&threads.lock);
	}
}

void cache_fronts_flush(void)
{
	each_own(flush);
}

void cache_front_note_miss(struct vmag_cache *cache)
{
	struct cache_thread *thread = this_thread();
	uint64_t now;

	if (++thread->misses % MISSES_A_LOOK != 0)
		return;
	now = os_clock_ms();
	if ((int64_t)(now - thread->tidied_at) >= TIDY_MS) {
		thread->tidied_at = now;
		each_own(tidy_one);
	}
	cache_update(cache, now);
	caches_expect_garbage(cache_garbage(cache));
}

// Takes a cache's magazines out of a thread's table; under the list's lock.
static struct magazine *take_both(struct cache_thread *thread, unsigned id, struct magazine *chain)
{
	struct cache_front *front = fronts_of(thread)[id];

	if (front->loaded != NULL) {
		front->loaded->rounds = (uint32_t)(thread->tops[id] - front->loaded->round);
		front->loaded->next = chain;
		chain = front->loaded;
	}
	if (front->previous != NULL) {
		front->previous->next = chain;
		chain = front->previous;
	}
	fronts_of(thread)[id] = NULL;
	thread->tops[id] = CLOSED;
	base_free(front, sizeof *front);
	return chain;
}

struct magazine *cache_fronts_collect(struct vmag_cache *cache)
{
	struct magazine *chain = NULL;

	mutex_lock(&threads.lock);
	for (struct cache_thread *thread = threads.first; thread != NULL; thread = thread->next)
		if (cache->id < thread->count && fronts_of(thread)[cache->id] != NULL)
			chain = take_both(thread, cache->id, chain);
	mutex_unlock(&threads.lock);
	return chain;
}

// The hook at a thread's end. Under the list's lock throughout, so that no cache is destroyed whose magazines are on their
// way; nothing of the program is called.
static void thread_end(void *value)
{
	struct cache_thread *thread = value;

	if (this_thread() != thread)
		return;
	for (unsigned id = 0; id < thread->count; id++) {
		mutex_lock(&threads.lock);
		struct vmag_cache *cache = fronts_of(thread)[id] != NULL ? cache_of_id(id) : NULL;
		struct magazine *magazine = cache == NULL ? NULL : take_both(thread, id, NULL), *next;

		for (; magazine != NULL; magazine = next) {
			next = magazine->next;
			cache_leave_magazine(cache, magazine);
		}
		mutex_unlock(&threads.lock);
	}
	mutex_lock(&threads.lock);
	unlink_thread(thread);
	mutex_unlock(&threads.lock);
	cache_words.tops = ENDED;
	cache_words.count = 0;
	base_free_table(thread->tops - 1, table_bytes(thread->count));
	base_free(thread, sizeof *thread);
}

// A magazine in use by another thread may vanish while it is read.
static size_t rounds_of(const struct magazine *magazine, size_t rounds, void **out, size_t most)
{
	if (out == NULL || rounds == 0)
		return rounds;
	rounds = min_size(rounds, most);
	return os_memory_peek(out, magazine->round, rounds * sizeof *out) ? rounds : 0;
}

static size_t rounds_of_thread(const struct cache_thread *thread, unsigned id, void **out, size_t most)
{
	const struct cache_front *front = fronts_of(thread)[id];
	struct magazine *loaded = __atomic_load_n(&front->loaded, __ATOMIC_RELAXED);
	struct magazine *previous = __atomic_load_n(&front->previous, __ATOMIC_RELAXED);
	size_t count = 0;

	if (loaded != NULL)
		count = (size_t)(__atomic_load_n(&thread->tops[id], __ATOMIC_RELAXED) - loaded->round);
	count = count <= front->capacity ? rounds_of(loaded, count, out, most) : 0;
	if (previous != NULL)
		count += rounds_of(previous, front->previous_rounds, out == NULL ? NULL : out + count, most - count);
	return count;
}

size_t cache_fronts_rounds(struct vmag_cache *cache, void **out, size_t most)
{
	size_t count = 0;

	mutex_lock(&threads.lock);
	for (struct cache_thread *thread = threads.first; thread != NULL; thread = thread->next)
		if (cache->id < thread->count && fronts_of(thread)[cache->id] != NULL)
			count += rounds_of_thread(thread, cache->id, out == NULL ? NULL : out + count, most - count);
	mutex_unlock(&threads.lock);
	return count;
}

void cache_fronts_init(void)
{
	os_thread_exit_hook(OS_THREAD_END_CACHES, thread_end);
}

void cache_fronts_fork_lock(void)
{
	mutex_fork_lock(&threads.lock);
}

// In the child the other threads are gone, and what their magazines held when the pages were copied cannot be trusted.
void cache_fronts_fork_done(bool child)
{
	struct cache_thread *own = cache_words.count > 0 ? this_thread() : NULL;

	if (child) {
		threads.first = own;
		if (own != NULL)
			own->next = own->prev = NULL;
	}
	mutex_fork_unlock(&threads.lock);
}
