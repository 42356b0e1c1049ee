// Exported: the *allocm functions of jemalloc 2 and 3, in terms of those that came after them.
// SPDX-License-Identifier: BSD-2-Clause
#include "api/needs_malloc.h"
#include "util/bits.h"
#include "vmag/allocm.h"

#include <stdbool.h>
#include <stdint.h>

#include "heap/extended.h"

enum { ALIGN_MASK = 0x3f, ALIGN_AND_ZERO = 0x7f, OLD_ARENA_SHIFT = 8, ARENA_SHIFT = 20 };

// The arena has moved to higher bits since.
static int flags_now(int flags)
{
	unsigned arena = (unsigned)flags >> OLD_ARENA_SHIFT;

	return (flags & ALIGN_AND_ZERO) | (int)(arena << ARENA_SHIFT);
}

static void tell(size_t *usable, size_t size)
{
	if (usable != NULL)
		*usable = size;
}

EXPORT int allocm(void **object, size_t *usable, size_t size, int flags)
{
	void *fresh = heap_mallocx(size, flags_now(flags));

	if (fresh == NULL)
		return ALLOCM_ERR_OOM;
	*object = fresh;
	tell(usable, heap_sallocx(fresh));
	return ALLOCM_SUCCESS;
}

static bool is_aligned(const void *object, int flags)
{
	return (uintptr_t)object % ((size_t)1 << (flags & ALIGN_MASK)) == 0;
}

EXPORT int rallocm(void **object, size_t *usable, size_t size, size_t extra, int flags)
{
	size_t now = heap_xallocx(*object, size, extra, flags_now(flags));
	void *moved;

	tell(usable, now);
	if (now >= size && is_aligned(*object, flags))
		return ALLOCM_SUCCESS;
	if ((flags & ALLOCM_NO_MOVE) != 0)
		return ALLOCM_ERR_NOT_MOVED;
	moved = heap_rallocx(*object, size, flags_now(flags));
	if (moved == NULL)
		return ALLOCM_ERR_OOM;
	*object = moved;
	tell(usable, heap_sallocx(moved));
	return ALLOCM_SUCCESS;
}

EXPORT int sallocm(const void *object, size_t *usable, int flags)
{
	(void)flags;
	tell(usable, heap_sallocx(object));
	return ALLOCM_SUCCESS;
}

EXPORT int dallocm(void *object, int flags)
{
	heap_dallocx(object, flags_now(flags), "dallocm");
	return ALLOCM_SUCCESS;
}

EXPORT int nallocm(size_t *usable, size_t size, int flags)
{
	size_t bytes = heap_nallocx(size, flags_now(flags));

	if (bytes == 0)
		return ALLOCM_ERR_OOM;
	tell(usable, bytes);
	return ALLOCM_SUCCESS;
}
