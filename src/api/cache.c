// Exported: object caches (include/vmag/cache.h).
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "api/needs_malloc.h"
#include "cache/front.h"
#include "cache/reserve.h"
#include "cache/table.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/sampling.h"
#include "util/bits.h"
#include "vmag/format.h"
#include "vmag/trace_format.h"
#include "vmag/vmem.h"
#include "vmem/resource.h"
#include "watch/trace.h"

enum { CONSOLIDATE_MOST = 256 }; // slabs in one call

static void *import(void *source, size_t size, int flags)
{
	return vmag_vmem_alloc(source, size, flags);
}

static void release(void *source, void *start, size_t size)
{
	vmag_vmem_free(source, start, size);
}

static struct cache_source source_of(struct vmag_vmem *arena)
{
	struct vmag_vmem_stats stats;

	if (arena == NULL)
		return (struct cache_source){ .import = NULL };
	vmag_vmem_stats(arena, &stats, sizeof stats);
	return (struct cache_source){ import, release, arena, stats.quantum, arena->import == NULL ? stats.total_bytes : 0, arena->root };
}

EXPORT vmag_cache_t *vmag_cache_create(const char *name, size_t size, size_t align, vmag_constructor_t *constructor,
				       vmag_destructor_t *destructor, vmag_reclaim_t *reclaim, void *argument,
				       struct vmag_vmem *source, int flags)
{
	struct cache_description wanted = {
		.name = name,
		.size = size,
		.align = align,
		.constructor = constructor,
		.destructor = destructor,
		.reclaim = reclaim,
		.argument = argument,
		.source = source_of(source),
		.flags = flags,
	};

	if (!heap_ready()) {
		errno = EAGAIN;
		return NULL;
	}
	return cache_create(&wanted);
}

// What was sampled ends while the id is this cache's: afterwards another thread's new cache may have it.
EXPORT void vmag_cache_destroy(vmag_cache_t *cache)
{
	if (cache != NULL && caches_are_watched()) {
		cache_expect_live(cache, "vmag_cache_destroy");
		sampled_objects_end(VMAG_ARENA_CACHES + cache->id);
	}
	cache_destroy(cache, "vmag_cache_destroy");
}

static void tell_trace(vmag_cache_t *cache, bool is_alloc, const void *object)
{
	bool is_of_heap = cache->source.import == NULL;
	unsigned what = is_alloc ? is_of_heap ? VMAG_TRACE_CACHE_ALLOC : VMAG_TRACE_PLACES_ALLOC : is_of_heap ? VMAG_TRACE_CACHE_FREE : VMAG_TRACE_PLACES_FREE;
	const struct trace_source source = { VMAG_TRACE_CACHE, cache->number, is_of_heap ? cache->object_bytes : 0, cache->name, &cache->told };

	tracing_tell(what, &source, (uintptr_t)object, is_alloc ? cache->object_bytes : 0);
}

// What the event trace and the profile are told, out of the way of who is not watched.
static __attribute__((noinline)) void tell_alloc(vmag_cache_t *cache, const void *object)
{
	if (trace_is_on())
		tell_trace(cache, true, object);
	sampling_object(cache, object);
}

static __attribute__((noinline)) void tell_free(vmag_cache_t *cache, const void *object)
{
	if (trace_is_on())
		tell_trace(cache, false, object);
	sampling_object_freed(object);
}

// Sampling is on, or was and one of its objects lives; nobody else watches.
static inline bool only_profile_watches(void)
{
	return caches_are_watched() && !trace_is_on();
}

// Whether the profile wants an object of that many bytes, or may: the long way tells. Bytes count while sampling is on.
static inline bool point_is_near(size_t bytes)
{
	return sampling_is_on() && words.until[0] < (int64_t)bytes;
}

// While only the profile watches: from the thread's own tops, its bytes counted. NULL: a miss, or the profile wants the next one.
static inline void *sampled_take(const vmag_cache_t *cache)
{
	if (!only_profile_watches() || point_is_near(cache->object_bytes))
		return NULL;
	void *object = cache_front_take(cache);
	if (object != NULL && sampling_is_on())
		words.until[0] -= (int64_t)cache->object_bytes;
	return object;
}

// Of an object that was not sampled. False: the long way.
static inline bool sampled_put(const vmag_cache_t *cache, void *object)
{
	return only_profile_watches() && object != NULL && !sampled_objects_may_have(object) && cache_front_put(cache, object);
}

static __attribute__((noinline)) void *alloc_miss(vmag_cache_t *cache, int flags)
{
	void *object = sampled_take(cache);

	if (LIKELY(object != NULL))
		return object;
	cache_door(!caches_are_watched());
	object = cache_alloc(cache, flags);
	if (caches_are_watched() && object != NULL)
		tell_alloc(cache, object);
	return object;
}

static __attribute__((noinline)) void free_miss(vmag_cache_t *cache, void *object)
{
	if (LIKELY(sampled_put(cache, object)))
		return;
	cache_door(!caches_are_watched());
	if (caches_are_watched() && object != NULL)
		tell_free(cache, object);
	cache_free(cache, object);
}

// Both begin a line of the instruction cache, as malloc does.
EXPORT __attribute__((aligned(64))) void *vmag_cache_alloc(vmag_cache_t *cache, int flags)
{
	void *object = cache_front_pop(cache);

	return LIKELY(object != NULL) ? object : alloc_miss(cache, flags);
}

EXPORT __attribute__((aligned(64))) void vmag_cache_free(vmag_cache_t *cache, void *object)
{
	if (UNLIKELY(object == NULL || !cache_front_push(cache, object)))
		free_miss(cache, object);
}

// Batches open the door, too, which a thread that calls nothing else would never come by.
EXPORT size_t vmag_cache_alloc_batch(vmag_cache_t *cache, void **objects, size_t count, int flags)
{
	cache_door(!caches_are_watched());
	size_t got = cache_alloc_batch(cache, objects, count, flags);

	if (caches_are_watched())
		for (size_t i = 0; i < got; i++)
			tell_alloc(cache, objects[i]);
	return got;
}

EXPORT void vmag_cache_free_batch(vmag_cache_t *cache, void *const *objects, size_t count)
{
	cache_door(!caches_are_watched());
	if (caches_are_watched())
		for (size_t i = 0; i < count; i++)
			if (objects[i] != NULL)
				tell_free(cache, objects[i]);
	cache_free_batch(cache, objects, count);
}

EXPORT vmag_reserve_t *vmag_cache_reserve(vmag_cache_t *cache, size_t count, int flags)
{
	return cache_reserve(cache, count, flags);
}

EXPORT void *vmag_reserve_alloc(vmag_reserve_t *reserve)
{
	return reserve_alloc(reserve);
}

EXPORT size_t vmag_reserve_left(const vmag_reserve_t *reserve)
{
	return reserve_left(reserve);
}

EXPORT void vmag_reserve_release(vmag_reserve_t *reserve)
{
	reserve_release(reserve);
}

EXPORT void vmag_cache_reap(vmag_cache_t *cache)
{
	cache_expect_live(cache, "vmag_cache_reap");
	cache_reclaim(cache);
}

EXPORT void vmag_caches_reap(void)
{
	caches_reap(true, NULL);
}

EXPORT void vmag_cache_set_move(vmag_cache_t *cache, vmag_move_t *move)
{
	atomic_store(&cache->move, move);
}

EXPORT size_t vmag_cache_consolidate(vmag_cache_t *cache)
{
	cache_expect_live(cache, "vmag_cache_consolidate");
	cache_reap(cache);
	return cache_consolidate(cache, CONSOLIDATE_MOST);
}

EXPORT const char *vmag_cache_name(const vmag_cache_t *cache)
{
	return cache->name;
}

EXPORT size_t vmag_cache_object_size(const vmag_cache_t *cache)
{
	return cache->object_bytes;
}

EXPORT void vmag_cache_stats(vmag_cache_t *cache, struct vmag_cache_stats *stats, size_t size)
{
	struct vmag_cache_stats all;

	cache_stats(cache, &all);
	memset(stats, 0, size);
	memcpy(stats, &all, size < sizeof all ? size : sizeof all);
}

EXPORT int vmag_cache_walk(vmag_cache_t *cache, void (*function)(void *argument, void *object), void *argument)
{
	return cache_walk(cache, function, argument);
}

EXPORT void vmag_cache_each(void (*function)(void *argument, vmag_cache_t *cache), void *argument)
{
	caches_each(function, argument);
}
