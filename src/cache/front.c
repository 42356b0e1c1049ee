// Front of the object caches: reloading magazines, giving them back.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/thread.h"

#include <string.h>

#include "base/base.h"
#include "cache/cpu.h"
#include "cache/objects.h"
#include "cache/table.h"
#include "cache/update.h"
#include "os/clock.h"

unsigned cache_first_batch(const struct vmag_cache *cache)
{
	size_t rounds = FIRST_BATCH_BYTES / cache->bin.shape.size;

	return (unsigned)max_size(min_size(rounds, cache->least_rounds), 1);
}

// The tops of the processor that this thread runs on now, which the fast path finds from now on.
static void ***tops_here(void)
{
	cache_words.cpu = processor_tops_of_caches();
	if (cache_words.fast_cpu != NULL)
		cache_words.fast_cpu = cache_words.cpu;
	return cache_words.cpu;
}

void *cache_front_take(const struct vmag_cache *cache)
{
	void **top, *object;

	if (cache_words.cpu != NULL)
		return rseq_pop(tops_here(), cache->id, &object) ? object : NULL;
	if (cache->id >= cache_words.count)
		return NULL;
	top = cache_words.tops[cache->id];
	object = top[-1];
	if (object != NULL)
		cache_words.tops[cache->id] = top - 1;
	return object;
}

bool cache_front_put(const struct vmag_cache *cache, void *object)
{
	void **top;

	if (cache_words.cpu != NULL)
		return rseq_push(tops_here(), cache->id, object);
	if (cache->id >= cache_words.count)
		return false;
	top = cache_words.tops[cache->id];
	if (*top == MAGAZINE_FULL)
		return false;
	*top = object;
	cache_words.tops[cache->id] = top + 1;
	return true;
}

// This thread's front of the cache. NULL: no memory, or the thread is past its end.
static struct cache_front *make_front(struct vmag_cache *cache)
{
	struct cache_front *front;

	if (cache->id >= cache_words.count && !cache_thread_reserve(cache->id))
		return NULL;
	front = cache_thread_fronts(cache_thread_this())[cache->id];
	if (front != NULL)
		return front;
	front = base_alloc(sizeof *front);
	if (front == NULL)
		return NULL;
	memset(front, 0, sizeof *front);
	front->batch = (uint16_t)cache_first_batch(cache);
	__atomic_store_n(&cache_thread_fronts(cache_thread_this())[cache->id], front, __ATOMIC_RELEASE); // others read it under the list's lock, which is not held here
	return front;
}

static void load(const struct vmag_cache *cache, struct cache_front *front, struct magazine *magazine)
{
	front->loaded = magazine;
	front->capacity = magazine == NULL ? 0 : magazine->capacity;
	cache_words.tops[cache->id] = magazine == NULL ? CACHE_CLOSED : magazine->round + magazine->rounds;
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

unsigned cache_wanted_rounds(const struct vmag_cache *cache)
{
	return atomic_load_explicit(&cache->rounds, memory_order_relaxed);
}

struct magazine *cache_new_magazine(const struct vmag_cache *cache)
{
	return magazine_create(cache_wanted_rounds(cache), 0);
}

// Magazines that are smaller than they should be are dropped when they come by empty.
struct magazine *cache_outgrown(const struct vmag_cache *cache, struct magazine *empty)
{
	if (empty == NULL || empty->capacity >= cache_wanted_rounds(cache))
		return empty;
	magazine_destroy(empty);
	return NULL;
}

// Objects that need no constructor come in batches. The magazine is not in the front while they are fetched: an import may reap the caches, or use this one.
static bool fill(struct vmag_cache *cache, struct cache_front *front, struct magazine *magazine)
{
	size_t wanted = min_size(front->batch, magazine->capacity);
	size_t got = cache_buffers(cache, magazine->round, wanted);
	struct magazine *other = unload(cache, front);

	if (other != NULL)
		cache_leave_magazine(cache, other);
	memmove(magazine->round, magazine->round + wanted - got, got * sizeof(void *));
	magazine->rounds = (uint32_t)got;
	front->batch = (uint16_t)min_size(front->batch * 2u, CACHE_BATCH_MOST);
	load(cache, front, magazine);
	return got > 0;
}

// The alloc side of Figure 3.1b, up to the depot.
static bool refill(struct vmag_cache *cache, struct cache_front *front)
{
	struct magazine *loaded = unload(cache, front), *previous = front->previous, *full;
	enum reload reload = magazine_with_rounds(loaded, previous);

	if (reload == RELOAD_LOADED) {
		load(cache, front, loaded);
		return true;
	}
	if (reload == RELOAD_PREVIOUS) {
		exchange(cache, front, loaded);
		return true;
	}
	loaded = cache_outgrown(cache, loaded);
	front->previous = NULL; // who is left from here on, by a handler's longjmp, has not also what the depot has
	previous = cache_outgrown(cache, previous);
	full = depot_take_full(&cache->depot, previous, NULL);
	if (full != NULL) {
		keep_previous(front, loaded);
		load(cache, front, full);
		return true;
	}
	front->previous = previous;
	if (loaded == NULL && cache_is_plain(cache))
		loaded = cache_new_magazine(cache);
	if (loaded != NULL && cache_is_plain(cache))
		return fill(cache, front, loaded);
	load(cache, front, loaded);
	return false;
}

bool cache_front_has_more(const struct vmag_cache *cache)
{
	const struct cache_front *front = cache_thread_front(cache->id);

	return (front != NULL && front->previous_rounds > 0) || __atomic_load_n(&cache->depot.full.first, __ATOMIC_RELAXED) != NULL;
}

bool cache_front_refill(struct vmag_cache *cache)
{
	return cache_words.cpu != NULL ? cache_cpu_refill(cache) : refill(cache, cache_thread_front(cache->id));
}

// The free side: it is here that magazines are made.
static bool make_room(struct vmag_cache *cache, struct cache_front *front)
{
	struct magazine *loaded = unload(cache, front), *previous = front->previous, *empty;
	enum reload reload = magazine_with_room(loaded, previous);

	if (reload == RELOAD_LOADED) {
		loaded->round[loaded->rounds] = NULL; // whoever freed what looks like a full magazine's end has left that there
		load(cache, front, loaded);
		return true;
	}
	if (reload == RELOAD_PREVIOUS) {
		exchange(cache, front, loaded);
		return true;
	}
	empty = NULL;
	if (loaded != NULL && previous != NULL) {
		keep_previous(front, NULL); // first, see refill
		empty = cache_outgrown(cache, depot_take_empty(&cache->depot, previous, NULL));
	}
	if (empty == NULL)
		empty = cache_new_magazine(cache);
	if (empty == NULL) {
		load(cache, front, loaded);
		return false;
	}
	if (loaded != NULL)
		keep_previous(front, loaded);
	load(cache, front, empty);
	return true;
}

bool cache_front_make_room(struct vmag_cache *cache)
{
	return cache_words.cpu != NULL ? cache_cpu_make_room(cache) : make_room(cache, cache_thread_front(cache->id));
}

// Moves rounds to another magazine as long as there are some and it has room.
static void pour(struct magazine *from, struct magazine *to)
{
	while (from->rounds > 0 && to->rounds < to->capacity)
		to->round[to->rounds++] = from->round[--from->rounds];
}

static void pour_into_depot(struct vmag_cache *cache, struct magazine *magazine)
{
	struct magazine *other;

	cache_carry(cache);
	other = depot_take_full(&cache->depot, NULL, NULL);
	if (other != NULL) {
		pour(magazine, other);
		depot_put(&cache->depot, other, NULL);
	}
	cache_carried(cache);
}

void cache_leave_magazine(struct vmag_cache *cache, struct magazine *magazine)
{
	if (magazine->rounds > 0 && magazine->rounds < magazine->capacity)
		pour_into_depot(cache, magazine);
	depot_put(&cache->depot, magazine, NULL);
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

void cache_front_flush(struct vmag_cache *cache)
{
	cache_thread_visit(cache->id, flush);
	cache_cpu_flush(cache);
}

void cache_fronts_flush(void)
{
	cache_thread_visit_all(flush);
	caches_cpu_flush();
}

static void look(struct vmag_cache *cache)
{
	uint64_t now = os_clock_ms();
	struct cache_thread *thread = cache_thread_this();

	if (thread != NULL && (int64_t)(now - thread->tidied_at) >= TIDY_MS) {
		thread->tidied_at = now;
		cache_thread_visit_all(tidy_one);
	}
	caches_cpu_tidy(now);
	cache_note_look(cache);
	cache_update(cache, now);
	caches_expect_garbage(cache_garbage(cache));
}

// Fronts of processors serve the threads that are registered, from their first miss on.
static bool is_served_by_cpu(void)
{
	if (UNLIKELY(cpu_nowhere != NULL && cache_words.cpu == NULL && cache_words.count == 0 && rseq_number() >= 0))
		cache_words.cpu = cpu_nowhere;
	return cache_words.cpu != NULL;
}

bool cache_front_begin_miss(struct vmag_cache *cache)
{
	if ((cache->flags & VMAG_CACHE_NOMAGAZINE) || (!is_served_by_cpu() && make_front(cache) == NULL))
		return false;
	if (++cache_words.misses % MISSES_A_LOOK == 0)
		look(cache);
	return true;
}
