// Exported: umem_cache_create and its kin.
// SPDX-License-Identifier: BSD-2-Clause
#include "umem/cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "cache/front.h"
#include "conf/umem_options.h"
#include "guard/log.h"
#include "guard/pattern.h"
#include "guard/report.h"
#include "heap/debug.h"
#include "heap/heap.h"
#include "heap/sampling.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/pages.h"
#include "umem/nofail.h"
#include "util/bits.h"
#include "vmag/vmem.h"

enum { SLAB_HEADER = 56 };

// What object caches call; the flags are libumem's, whose constructors always get UMEM_DEFAULT.
static int construct(void *object, void *argument, int flags)
{
	struct umem_cache *cache = argument;

	(void)flags;
	return cache->constructor(object, cache->argument, UMEM_DEFAULT);
}

static void destruct(void *object, void *argument)
{
	struct umem_cache *cache = argument;

	cache->destructor(object, cache->argument);
}

static void reclaim(void *argument)
{
	struct umem_cache *cache = argument;

	if (!atomic_load(&cache->guard.destroyed)) // it was not empty
		cache->reclaim(cache->argument);
}

// The object cache below a guarded one as the source of its buffers.
static void *raw_alloc(void *source, size_t size, size_t align)
{
	(void)size;
	(void)align;
	return vmag_cache_alloc(((struct umem_cache *)source)->objects, VMAG_NOSLEEP);
}

static void raw_free(void *source, void *block, size_t size)
{
	(void)size;
	vmag_cache_free(((struct umem_cache *)source)->objects, block);
}

static void raw_end_sample(void *block)
{
	sampling_object_freed(block);
}

bool umem_cache_guards(const struct guard_cache *cache)
{
	return cache->alloc == raw_alloc;
}

bool umem_cache_is_below(const vmag_cache_t *objects)
{
	for (const struct guard_cache *cache = guard_caches(); cache != NULL; cache = cache->next)
		if (umem_cache_guards(cache) && ((const struct umem_cache *)cache->source)->objects == objects)
			return true;
	return false;
}

static int flags_below(int flags)
{
	bool bare = (flags & UMC_NOMAGAZINE) || umem_options.no_magazines;

	return (flags & UMC_NOTOUCH ? VMAG_CACHE_NOTOUCH : 0) | (bare ? VMAG_CACHE_NOMAGAZINE : 0);
}

static bool create_plain(struct umem_cache *cache, const char *name, vmem_t *source, int flags)
{
	cache->objects = vmag_cache_create(name, cache->size, cache->align, cache->constructor != NULL ? construct : NULL,
					   cache->destructor != NULL ? destruct : NULL, cache->reclaim != NULL ? reclaim : NULL,
					   cache, (struct vmag_vmem *)source, flags_below(flags));
	if (cache->objects == NULL)
		return false;
	cache->objects->free_name = "umem_cache_free";
	return true;
}

// Without magazines, in which references to buffers would remain that nobody has any more.
static bool create_guarded(struct umem_cache *cache, const char *name, vmem_t *source, int flags)
{
	bool untouched = flags & UMC_NOTOUCH;
	size_t size = untouched ? cache->size : red_zone_bytes(cache->size);
	size_t align = cache->align != 0 || untouched ? cache->align : cache->size >= 16 ? 16 : 8;

	cache->objects = vmag_cache_create(name, size, align, NULL, NULL, cache->reclaim != NULL ? reclaim : NULL, cache,
					   (struct vmag_vmem *)source, flags_below(flags) | VMAG_CACHE_NOMAGAZINE);
	if (cache->objects == NULL)
		return false;
	cache->guarded = true;
	cache->guard.untouched = untouched;
	cache->guard.sourced = source != NULL;
	cache->guard.alloc = raw_alloc;
	cache->guard.free = raw_free;
	cache->guard.end_sample = raw_end_sample;
	cache->guard.source = cache;
	cache->align = align < 8 ? 8 : align;
	guard_cache_init(&cache->guard, name, cache->size);
	return true;
}

static size_t quantum_of(vmem_t *source)
{
	struct vmag_vmem_stats stats;

	if (source == NULL)
		return os_page_size();
	vmag_vmem_stats((struct vmag_vmem *)source, &stats, sizeof stats);
	return stats.quantum;
}

static size_t align_of(size_t size, size_t align, size_t quantum)
{
	return align != 0 ? align : min_size(size >= 16 ? 16 : 8, quantum);
}

// EINVAL's reasons beyond those that object caches know.
static bool arguments_are_good(const char *name, size_t size, size_t align, size_t quantum, int flags)
{
	if (name == NULL || size == 0 || align > quantum)
		return false;
	if ((flags & UMC_NOHASH) && ((flags & UMC_NOTOUCH) || size + SLAB_HEADER > quantum))
		return false;
	return true;
}

static umem_cache_t *failed(int error)
{
	errno = error;
	return NULL;
}

// UMEM_DEBUG=random: a cache in four is not debugged, and half of those have no magazines.
static int flags_by_chance(void)
{
	unsigned chance = umem_options.random ? guard_random() : 1;

	return (chance & 3) != 0 ? 0 : chance & 4 ? UMC_NODEBUG : UMC_NODEBUG | UMC_NOMAGAZINE;
}

EXPORT umem_cache_t *umem_cache_create(char *name, size_t size, size_t align, umem_constructor_t *constructor,
				       umem_destructor_t *destructor, umem_reclaim_t *reclaim_function, void *argument,
				       vmem_t *source, int flags)
{
	struct umem_cache *cache;
	size_t quantum = quantum_of(source);
	bool created;

	align = align_of(size, align, quantum);
	if (!arguments_are_good(name, size, align, quantum, flags))
		return failed(EINVAL);
	if (size > PTRDIFF_MAX / 2)
		return failed(ENOMEM);
	cache = heap_ready() ? base_alloc(sizeof *cache) : NULL;
	if (cache == NULL)
		return failed(EAGAIN);
	*cache = (struct umem_cache){ .constructor = constructor, .destructor = destructor, .reclaim = reclaim_function,
				      .argument = argument, .size = size, .align = align };
	if (umem_debugging())
		flags |= flags_by_chance();
	if (umem_debugging() && !(flags & UMC_NODEBUG))
		created = create_guarded(cache, name, source, flags);
	else
		created = create_plain(cache, name, source, flags);
	if (created)
		return cache;
	base_free(cache, sizeof *cache);
	return NULL;
}

// In place of the object cache below a guarded one that was destroyed: no thread has anything of it, so that whoever uses the cache comes to
// where it is told. Nor can it be taken for the next cache, which may have the address of the last.
static struct vmag_cache nobodys;

static struct vmag_cache *of_nobody(void)
{
	nobodys.id = CACHE_FAST_IDS - 1;
	nobodys.fast_place = cache_fast_place(CACHE_FAST_IDS - 1);
	return &nobodys;
}

// A guarded cache's structure stays: records of its buffers and reports name it.
static void destroy_guarded(struct umem_cache *cache)
{
	size_t live = atomic_load(&cache->guard.live);

	if (atomic_exchange(&cache->guard.destroyed, true))
		guard_report("umem_cache_destroy", cache, "this cache was destroyed already", 0);
	guard_release_held_of(&cache->guard, "umem_cache_destroy");
	guard_cache_await(&cache->guard);
	if (live != 0)
		os_stderr_say("vmag: umem_cache_destroy: %s: not empty, %zu buffers are still allocated", cache->guard.name, live);
	else {
		vmag_cache_destroy(cache->objects);
		cache->objects = of_nobody();
	}
}

EXPORT void umem_cache_destroy(umem_cache_t *cache)
{
	if (cache->guarded) {
		destroy_guarded(cache);
		return;
	}
	vmag_cache_destroy(cache->objects);
	base_free(cache, sizeof *cache);
}

// A buffer that its constructor refuses goes back at once.
static void *alloc_guarded(struct umem_cache *cache, int flags)
{
	void *object = guard_alloc(&cache->guard, GUARD_CACHE, cache->size, cache->align, !(flags & UMEM_NOFAIL));

	if (object == NULL || cache->constructor == NULL || cache->constructor(object, cache->argument, UMEM_DEFAULT) == 0)
		return object;
	atomic_fetch_add_explicit(&cache->guard.failures, 1, memory_order_relaxed);
	guard_log_failure(&cache->guard, cache->size);
	guard_free(&cache->guard, GUARD_CACHE, object, cache->size, "umem_cache_alloc");
	return NULL;
}

static void *alloc_once(struct umem_cache *cache, int flags)
{
	if (!cache->guarded)
		return vmag_cache_alloc(cache->objects, VMAG_NOSLEEP);
	if (atomic_load_explicit(&cache->guard.destroyed, memory_order_relaxed))
		guard_report("umem_cache_alloc", cache, "this cache was destroyed", 0);
	return alloc_guarded(cache, flags);
}

static __attribute__((noinline)) void *alloc_slow(struct umem_cache *cache, int flags)
{
	void *object;

	do {
		object = alloc_once(cache, flags);
		if (UNLIKELY(object == NULL) && !cache->guarded)
			guard_log_failure(NULL, cache->size);
	} while (object == NULL && nofail_retry(flags));
	return object;
}

// A guarded cache has no magazines below it: there is never a hit.
EXPORT void *umem_cache_alloc(umem_cache_t *cache, int flags)
{
	void *object = cache_front_pop(cache->objects);

	return LIKELY(object != NULL) ? object : alloc_slow(cache, flags);
}

static void free_guarded(struct umem_cache *cache, void *object)
{
	struct guarded *record;

	if (object == NULL)
		return;
	if (cache->objects == &nobodys)
		guard_report("umem_cache_free", cache, "this cache was destroyed", 0);
	record = guard_leave(&cache->guard, GUARD_CACHE, object, (size_t)GUARD_ANY_SIZE, "umem_cache_free");
	if (record == NULL)
		return;
	if (cache->destructor != NULL)
		cache->destructor(object, cache->argument);
	guard_hold(record, "umem_cache_free");
}

static __attribute__((noinline)) void free_slow(struct umem_cache *cache, void *object)
{
	if (cache->guarded)
		free_guarded(cache, object);
	else
		vmag_cache_free(cache->objects, object);
}

EXPORT void umem_cache_free(umem_cache_t *cache, void *object)
{
	if (UNLIKELY(object == NULL || !cache_front_push(cache->objects, object)))
		free_slow(cache, object);
}

// As libumem: at most once in an interval.
EXPORT void umem_reap(void)
{
	static _Atomic uint64_t last;
	uint64_t now = os_clock_ms(), before = atomic_load(&last);

	if (before != 0 && now - before < umem_options.reap_interval * 1000)
		return;
	if (!atomic_compare_exchange_strong(&last, &before, now))
		return;
	if (debugging())
		guard_release_held("umem_reap");
	vmag_caches_reap();
	heap_trim();
}
