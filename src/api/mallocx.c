// Exported: jemalloc's *x functions.
// SPDX-License-Identifier: BSD-2-Clause
#include "jemalloc/jemalloc.h"

#include "api/needs_malloc.h"
#include "heap/cpu_fast.h"
#include "heap/extended.h"
#include "heap/fast.h"
#include "util/bits.h"

CPU_FAST void *mallocx_miss(size_t size)
{
	void *object = NULL;

	if (!front_is_beyond(size)) {
		void **top = words.top[size_class_small[size]];

		object = counted_leads(top[-1]) ? counted_pop_last(size_class_small[size]) : NULL;
	}
	return LIKELY(object != NULL) ? object : heap_malloc_some(size);
}

static __attribute__((noinline)) void dallocx_slow(void *object)
{
	const void *outer = front_free_begins(__builtin_return_address(0));

	heap_dallocx(object, 0, "dallocx");
	front_free_ends(outer);
}

CPU_FAST void dallocx_miss(void *object)
{
	cpu_fast_free(object, dallocx_slow);
}

EXPORT void *mallocx(size_t size, int flags)
{
	return flags == 0 ? fast_malloc_last(size, mallocx_miss) : heap_mallocx(size, flags);
}

EXPORT void *rallocx(void *object, size_t size, int flags)
{
	return heap_rallocx(object, size, flags);
}

EXPORT size_t xallocx(void *object, size_t size, size_t extra, int flags)
{
	return heap_xallocx(object, size, extra, flags);
}

EXPORT size_t sallocx(const void *object, int flags)
{
	(void)flags;
	return heap_sallocx(object);
}

EXPORT void dallocx(void *object, int flags)
{
	if (flags == 0)
		fast_free(object, dallocx_miss);
	else
		heap_dallocx(object, flags, "dallocx");
}

// The size is always checked: by the page map's word, which also says where the object belongs.
EXPORT void sdallocx(void *object, size_t size, int flags)
{
	if (flags == 0 && size <= SMALL_MOST && word_class(page_map_word(object)) == size_class_small[size])
		fast_free(object, dallocx_miss);
	else
		heap_sdallocx(object, size, flags, "sdallocx");
}

EXPORT size_t nallocx(size_t size, int flags)
{
	return heap_nallocx(size, flags);
}
