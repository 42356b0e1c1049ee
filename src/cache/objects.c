// Objects: allocating and freeing beyond the front, construction and destruction, and waiting for memory.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/objects.h"

#include <errno.h>

#include "cache/table.h"
#include "cache/thread.h"
#include "guard/report.h"
#include "os/clock.h"
#include "util/format.h"

enum { WAIT_MS = 10 };

size_t cache_buffers(struct vmag_cache *cache, void **rounds, size_t count)
{
	size_t got = bin_fill(&cache->bin, rounds, count);

	while (got == 0 && bin_grow(&cache->bin))
		got = bin_fill(&cache->bin, rounds, count);
	return got;
}

// The finding about an object that did not come from here, or came back before.
static _Noreturn void report(const struct vmag_cache *cache, const void *object, enum bin_finding finding)
{
	char what[160];

	text_print(what, sizeof what, "%s cache '%s', whose objects have %%zu bytes",
		   finding == BIN_FREE_ALREADY ? "double free of an object of" :
		   finding == BIN_NOT_A_START  ? "not the start of an object of" :
						 "not an object of",
		   cache->name);
	guard_report(cache->free_name, object, what, cache->object_bytes);
}

static void wake_sleepers(struct vmag_cache *cache)
{
	if (LIKELY(atomic_load(&cache->sleepers) == 0))
		return;
	atomic_fetch_add(&cache->freed, 1);
	os_word_wake(&cache->freed);
}

static void put_back(struct vmag_cache *cache, void *const *rounds, size_t count)
{
	size_t done;
	enum bin_finding finding = bin_drain(&cache->bin, rounds, count, &done);

	if (UNLIKELY(finding != BIN_OK))
		report(cache, rounds[done], finding);
}

// No destructor runs on what is no object.
static void destruct(struct vmag_cache *cache, void *object)
{
	enum bin_finding finding = bin_probe(&cache->bin, object);

	if (UNLIKELY(finding != BIN_OK))
		report(cache, object, finding);
	cache->destructor(object, cache->argument);
	put_back(cache, &object, 1);
}

void cache_drain(struct vmag_cache *cache, void *const *rounds, size_t count)
{
	if (cache->destructor == NULL)
		put_back(cache, rounds, count);
	else
		for (size_t i = 0; i < count; i++)
			destruct(cache, rounds[i]);
	wake_sleepers(cache);
}

void cache_drain_chain(struct vmag_cache *cache, struct magazine *chain)
{
	for (struct magazine *next; chain != NULL; chain = next) {
		next = chain->next;
		cache_drain(cache, chain->round, chain->rounds);
		magazine_destroy(chain);
	}
}

bool cache_drain_depot(struct vmag_cache *cache, bool everything)
{
	struct magazine *chain;

	cache_carry(cache);
	chain = depot_reap(&cache->depot, everything, NULL);
	cache_drain_chain(cache, chain);
	cache_carried(cache);
	return chain != NULL;
}

void cache_carry(struct vmag_cache *cache)
{
	atomic_fetch_add(&cache->carriers, 1);
	atomic_fetch_add(&cache->carries, 1);
}

// In the child of a fork amid what is counted there are none.
static void count_down(_Atomic uint32_t *count)
{
	uint32_t seen = atomic_load(count);

	while (seen != 0 && !atomic_compare_exchange_weak(count, &seen, seen - 1))
		;
}

void cache_carried(struct vmag_cache *cache)
{
	count_down(&cache->carriers);
}

// Where it is kept what this thread had constructed last; NULL: nowhere, the cache has no magazines.
static void **last_built(const struct vmag_cache *cache)
{
	struct cache_front *front = cache_thread_front(cache->id);

	if (front != NULL)
		return &front->built;
	return cache_words.cpu != NULL ? &cache_words.built : NULL;
}

// One, beside the last.
static void *buffer(struct vmag_cache *cache)
{
	void **built = last_built(cache), *object;

	if (built == NULL)
		return cache_buffers(cache, &object, 1) == 1 ? object : NULL;
	do
		object = bin_take(&cache->bin, *built);
	while (object == NULL && bin_grow(&cache->bin));
	*built = object;
	return object;
}

void *cache_construct(struct vmag_cache *cache, int flags)
{
	void *object = buffer(cache);

	if (object == NULL)
		return NULL;
	if (cache->constructor == NULL || cache->constructor(object, cache->argument, flags) == 0)
		return object;
	atomic_fetch_add_explicit(&cache->constructor_failures, 1, memory_order_relaxed);
	put_back(cache, &object, 1);
	return NULL;
}

// All caches whose sources have the same root may have what this one needs; of the heap, malloc too.
void cache_relieve(struct vmag_cache *cache)
{
	int saved = errno;

	caches_reap(true, cache->source.root);
	if (cache->source.import == NULL)
		caches_trim_heap();
	errno = saved;
}

void cache_wait(struct vmag_cache *cache)
{
	uint32_t seen = atomic_load(&cache->freed);

	atomic_fetch_add(&cache->sleepers, 1);
	os_word_wait(&cache->freed, seen, WAIT_MS);
	count_down(&cache->sleepers);
}

// From the front, from the depot, from a slab.
static void *alloc_once(struct vmag_cache *cache, bool magazines, int flags)
{
	void *object = NULL;

	while (object == NULL && magazines && cache_front_refill(cache))
		object = cache_front_take(cache);
	return object != NULL ? object : cache_construct(cache, flags);
}

static void *no_memory(struct vmag_cache *cache)
{
	atomic_fetch_add_explicit(&cache->alloc_failures, 1, memory_order_relaxed);
	errno = ENOMEM;
	return NULL;
}

void *cache_alloc(struct vmag_cache *cache, int flags)
{
	bool magazines;
	void *object;

	cache_expect_live(cache, "vmag_cache_alloc");
	object = cache_front_take(cache);
	if (object != NULL)
		return object;
	magazines = cache_front_begin_miss(cache);
	object = alloc_once(cache, magazines, flags);
	if (LIKELY(object != NULL))
		return object;
	cache_relieve(cache);
	while ((object = alloc_once(cache, magazines, flags)) == NULL) {
		if (flags & VMAG_NOSLEEP)
			return no_memory(cache);
		cache_wait(cache);
	}
	return object;
}

void cache_free(struct vmag_cache *cache, void *object)
{
	int saved = errno;
	bool magazines;

	if (object == NULL)
		return;
	cache_expect_live(cache, cache->free_name);
	if (cache_front_put(cache, object))
		return;
	magazines = cache_front_begin_miss(cache);
	while (!cache_front_put(cache, object))
		if (!magazines || !cache_front_make_room(cache)) {
			cache_drain(cache, &object, 1);
			break;
		}
	errno = saved;
}

// What the front and the depot have, then the slabs, in as few steps as possible.
size_t cache_alloc_batch(struct vmag_cache *cache, void **objects, size_t count, int flags)
{
	size_t got = 0;

	while (got < count) {
		void *object = cache_front_pop(cache);

		if (object == NULL)
			object = cache_front_take(cache);
		if (object == NULL && cache_is_plain(cache) && count - got > cache->least_rounds && !cache_front_has_more(cache)) {
			size_t more = cache_buffers(cache, objects + got, count - got);

			__builtin_memmove(objects + got, objects + count - more, more * sizeof *objects);
			got += more;
			if (more > 0)
				continue;
		}
		if (object == NULL)
			object = cache_alloc(cache, flags);
		if (object == NULL)
			break;
		objects[got++] = object;
	}
	return got;
}

void cache_free_batch(struct vmag_cache *cache, void *const *objects, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (objects[i] != NULL && !cache_front_push(cache, objects[i]))
			cache_free(cache, objects[i]);
}
