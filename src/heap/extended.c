// The *x functions: flags taken apart, then the slow path with an arena and a front of the program's choice.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/extended.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "conf/options.h"
#include "guard/report.h"
#include "heap/cpu_fast.h"
#include "heap/debug.h"
#include "heap/door.h"
#include "heap/explicit.h"
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/reclaim.h"
#include "os/pages.h"
#include "pages/page_map.h"

// How flags are laid out (include/jemalloc/jemalloc.h).
enum { ALIGN_MASK = 0x3f, ZERO = 0x40, CACHE_SHIFT = 8, ARENA_SHIFT = 20, INDEX_MASK = 0xfff };
enum { CACHE_AUTOMATIC = 0, CACHE_NONE = 1, CACHE_FIRST = 2, ARENA_FIRST = 1 };

static size_t align_of(int flags)
{
	unsigned lg = (unsigned)flags & ALIGN_MASK;

	return lg == 0 ? 0 : (size_t)1 << lg;
}

static unsigned cache_bits(int flags)
{
	return (unsigned)flags >> CACHE_SHIFT & INDEX_MASK;
}

static unsigned arena_bits(int flags)
{
	return (unsigned)flags >> ARENA_SHIFT & INDEX_MASK;
}

// Where an operation goes: an arena and a front, or the arena's slabs when there is no front.
struct way {
	struct arena *arena; // NULL: no memory for one
	struct front *front;
};

static struct arena *arena_named(int flags, const char *call)
{
	unsigned id = arena_bits(flags) - ARENA_FIRST;
	struct arena *arena;

	if (arena_bits(flags) == 0)
		return NULL;
	arena = arena_wanted(id);
	if (arena == NULL && id >= arenas_automatic_most())
		guard_report(call, GUARD_NOWHERE, "the flags name arena %zu, which does not exist", id);
	return arena;
}

static struct front *cache_named(int flags, struct arena *arena, const char *call)
{
	struct front *cache = explicit_cache_for(cache_bits(flags) - CACHE_FIRST, arena);

	if (cache == NULL)
		guard_report(call, GUARD_NOWHERE, "the flags name cache %zu, which does not exist", cache_bits(flags) - CACHE_FIRST);
	return cache;
}

// A cache to allocate from. Where no arena is named nobody gets an object of one that the program made, unless it is the thread's: it may be reset.
static struct front *cache_to_use(int flags, struct arena *arena, const char *call)
{
	struct front *cache = cache_named(flags, arena, call);

	return arena_bits(flags) == 0 && cache->arena->is_explicit ? cache_named(flags, heap_own_arena(), call) : cache;
}

// The thread's own front serves only where neither an arena nor a cache is named.
static struct way way_of(size_t bytes, int flags, const char *call)
{
	struct way way = { .arena = arena_named(flags, call) };

	if (cache_bits(flags) >= CACHE_FIRST) {
		way.front = cache_to_use(flags, way.arena, call);
		way.arena = way.front->arena;
	} else if (way.arena == NULL && arena_bits(flags) == 0)
		way.arena = heap_run_arena(bytes);
	return way;
}

static void *alloc_small(struct way way, unsigned class)
{
	struct front *front = way.front;
	void *object = front != NULL ? front_pop(front, class) : NULL;

	while (object == NULL && front != NULL && front_refill(front, class))
		object = front_pop(front, class);
	if (object == NULL && arena_fill(way.arena, class, &object, 1) == 0)
		return NULL;
	return object;
}

static void *alloc_once(struct way way, size_t bytes, size_t align, bool *zeroed)
{
	unsigned class = size_class(bytes);

	*zeroed = false;
	if (!page_map_has_room(bytes, align))
		return NULL;
	if (align <= os_page_size() && (class < SLAB_CLASSES || (class < CLASSES && way.front != NULL)))
		return alloc_small(way, class);
	return large_alloc(way.arena, bytes, align, class < CLASSES ? class : 0, zeroed);
}

// Where hooks refuse, what other arenas have does not help.
static bool may_help(struct arena *arena)
{
	return extents_are_ours(&arena->pages.extents) ? heap_make_room() : reclaim_arena(arena);
}

static void *alloc_on(struct way way, size_t bytes, size_t align, bool *zeroed)
{
	bool sampled = way.arena != NULL && heap_is_sampled(bytes);
	void *object = way.arena == NULL ? NULL : sampled ? heap_alloc_sampled(way.arena, bytes, align, zeroed) : alloc_once(way, bytes, align, zeroed);

	if (object == NULL && way.arena != NULL && page_map_has_room(bytes, align) && may_help(way.arena))
		object = alloc_once(way, bytes, align, zeroed);
	if (object == NULL)
		return heap_no_memory();
	if (UNLIKELY(words.door != 0))
		door_allocated(words.front, object, bytes);
	return object;
}

// Guarded buffers come from where the guard takes them.
static bool is_plain(int flags)
{
	return debugging() || (cache_bits(flags) == CACHE_AUTOMATIC && arena_bits(flags) == 0);
}

static void *zeroed_guarded(void *object, size_t size)
{
	return object == NULL ? NULL : memset(object, 0, size);
}

void *heap_mallocx(size_t size, int flags)
{
	size_t align = align_of(flags), bytes;
	void *object;
	bool zeroed;

	if (is_plain(flags) && (flags & ZERO) == 0)
		return align == 0 ? heap_malloc_some(size) : heap_aligned(align, size);
	bytes = heap_size_for(align, size);
	if (is_plain(flags) && align == 0)
		return bytes != 0 ? heap_calloc(1, debugging() ? size : bytes) : heap_malloc_some(size);
	if (debugging())
		return zeroed_guarded(heap_aligned(align, size), size);
	if (bytes == 0)
		return heap_no_memory();
	object = is_plain(flags) && bytes <= MAGAZINE_MOST ? heap_aligned(align, size) :
							    alloc_on(way_of(bytes, flags, "mallocx"), bytes, align, &zeroed);
	if (object != NULL && (flags & ZERO) != 0 && (!(bytes > MAGAZINE_MOST && zeroed) || options.junk != JUNK_NEVER))
		heap_zero(object, 0, bytes);
	return object;
}

void *heap_plain_lasting(size_t align, size_t size)
{
	const struct arena *own = heap_own_arena();
	size_t bytes = heap_size_for(align, size);
	bool zeroed;

	if (own == NULL || !own->is_explicit || bytes == 0)
		return align == 0 ? heap_plain_malloc(size) : heap_plain_aligned(align, size);
	return alloc_on((struct way){ .arena = arena_wanted(0) }, bytes, align, &zeroed);
}

static bool is_aligned(const void *object, size_t align)
{
	return align == 0 || (uintptr_t)object % align == 0;
}

// What is guarded ends amid a page.
static void zero_from(void *object, size_t from, size_t to)
{
	if (to > from && debugging())
		memset((char *)object + from, 0, to - from);
	else if (to > from)
		heap_zero(object, from, to);
}

static bool resize_to(void *object, size_t old_size, size_t size)
{
	return heap_resize(NULL, object, old_size, size) != NULL;
}

// Moved pages keep no alignment beyond a page, and stay with arenas that threads are given.
static void *resize_or_move(void *object, size_t old_size, size_t size, size_t align, int flags)
{
	if (!is_aligned(object, align))
		return NULL;
	return heap_resize(align <= os_page_size() && is_plain(flags) ? heap_run_arena(size) : NULL, object, old_size, size);
}

// All that could be used is kept, and not just what was asked for: what lies behind may be zeroes of an earlier call.
static void *copy_to(void *object, size_t old_size, size_t size, int flags)
{
	size_t usable = heap_size_for(align_of(flags), size);
	void *fresh = heap_mallocx(size, flags & ~ZERO);

	if (fresh == NULL)
		return NULL;
	memcpy(fresh, object, min_size(old_size, debugging() ? size : usable));
	heap_dallocx(object, flags, "rallocx");
	return fresh;
}

void *heap_rallocx(void *object, size_t size, int flags)
{
	size_t align = align_of(flags), bytes, old_size;
	void *result;

	if (object == NULL)
		return heap_mallocx(size, flags);
	if (flags == 0 && size - 1 < PTRDIFF_MAX && !debugging())
		return heap_realloc(object, class_round(size), "rallocx"); // rounded up, so that all that can be used is kept
	bytes = heap_size_for(align, size);
	old_size = heap_usable_size(object, "rallocx");
	if (bytes == 0)
		return heap_no_memory();
	if ((debugging() ? size : bytes) == old_size && is_aligned(object, align)) {
		door_kept(words.front, old_size);
		return object;
	}
	result = debugging() ? NULL : resize_or_move(object, old_size, bytes, align, flags);
	if (result == NULL)
		result = copy_to(object, old_size, size, flags);
	if (result != NULL && (flags & ZERO) != 0)
		zero_from(result, old_size, debugging() ? size : bytes);
	return result;
}

size_t heap_xallocx(void *object, size_t size, size_t extra, int flags)
{
	size_t old_size = heap_usable_size(object, "xallocx"), align = align_of(flags);
	size_t least = heap_size_for(align, size), most, now = old_size;

	if (least == 0 || debugging() || !is_aligned(object, align))
		return old_size;
	most = extra > PTRDIFF_MAX - size ? 0 : heap_size_for(align, size + extra);
	if (most == 0)
		most = heap_size_for(align, LARGEST_CLASS - align);
	if (most > old_size && resize_to(object, old_size, most))
		now = most;
	else if (least < most && least > old_size && resize_to(object, old_size, least))
		now = least;
	else if (old_size > most && resize_to(object, old_size, most))
		now = most;
	if ((flags & ZERO) != 0)
		zero_from(object, old_size, now);
	return now;
}

size_t heap_sallocx(const void *object)
{
	return heap_usable_size(object, "sallocx");
}

static __attribute__((noinline)) void dallocx_slow(void *object)
{
	heap_free(object, "dallocx");
}

CPU_FAST void dallocx_missed(void *object)
{
	cpu_fast_free(object, dallocx_slow);
}

void heap_dallocx(void *object, int flags, const char *call)
{
	struct front *front = NULL;

	if (cache_bits(flags) == CACHE_AUTOMATIC || debugging()) {
		fast_free(object, dallocx_missed);
		return;
	}
	if (cache_bits(flags) >= CACHE_FIRST)
		front = cache_named(flags, NULL, call);
	heap_free_through(front, object, call);
}

void heap_sdallocx(void *object, size_t size, int flags, const char *call)
{
	size_t real;

	if (object == NULL)
		return;
	if (debugging()) {
		heap_free_sized(object, align_of(flags), size, call);
		return;
	}
	real = heap_usable_size(object, call);
	if (UNLIKELY(real != heap_size_for(align_of(flags), size)))
		guard_report(call, object, "freed with a wrong size or alignment, it is an object of %zu bytes", real);
	heap_dallocx(object, flags, call);
}

size_t heap_nallocx(size_t size, int flags)
{
	return heap_size_for(align_of(flags), size);
}
