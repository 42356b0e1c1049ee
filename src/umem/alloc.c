// Exported: umem_alloc and its kin. Small sizes take malloc's fast path; a sized free needs no look at the page map.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include <umem.h>

#include "api/needs_malloc.h"
#include "conf/umem_options.h"
#include "guard/fault.h"
#include "guard/log.h"
#include "guard/report.h"
#include "heap/debug.h"
#include "heap/fast.h"
#include "heap/fronts.h"
#include "heap/sampled.h"
#include "os/pages.h"
#include "umem/nofail.h"
#include "umem/sizes.h"
#include "util/bits.h"

// Short requests are malloc's and take its fast path, once it is known that UMEM_OPTIONS changes no sizes.
static bool serves_short;

// After heap_ready.
static bool sizes_changed(void)
{
	if (umem_sizes_changed())
		return true;
	if (UNLIKELY(!serves_short)) {
		__atomic_store_n(&serves_short, true, __ATOMIC_RELAXED);
		fronts_serve_short();
	}
	return false;
}

// What libumem's users rely on: multiples of 64 at multiples of 64, pages at pages. Size classes are so by themselves;
// guarded buffers have to be told.
static size_t natural_align(size_t size)
{
	size_t page = os_page_size();

	return size % page == 0 ? page : size % 64 == 0 ? 64 : 16;
}

static void *allocate(size_t size, size_t align, enum guard_face face, int flags)
{
	int saved = errno;
	void *buffer;

	if (debugging() && (flags & UMEM_NOFAIL))
		buffer = debug_alloc_nofail(face, size, align != 0 ? align : natural_align(size));
	else if (debugging())
		buffer = debug_alloc(face, size, align != 0 ? align : natural_align(size));
	else if (align != 0)
		buffer = heap_aligned(align, size);
	else
		buffer = sizes_changed() ? umem_sizes_alloc(size) : heap_malloc_missed(size);
	errno = saved;
	return buffer;
}

static __attribute__((noinline)) void *alloc_slow(size_t size, size_t align, enum guard_face face, int flags)
{
	void *buffer;

	if (size == 0)
		return NULL;
	do {
		buffer = allocate(size, align, face, flags);
		if (UNLIKELY(buffer == NULL) && !debugging())
			guard_log_failure(NULL, size);
	} while (buffer == NULL && nofail_retry(flags));
	return buffer;
}

EXPORT void *umem_alloc(size_t size, int flags)
{
	void *buffer = LIKELY(front_is_short(size)) ? fast_pop_served(size) : NULL;

	return LIKELY(buffer != NULL) ? buffer : alloc_slow(size, 0, GUARD_UMEM, flags);
}

EXPORT void *umem_zalloc(size_t size, int flags)
{
	void *buffer = umem_alloc(size, flags);

	return buffer == NULL ? NULL : memset(buffer, 0, size);
}

// (NULL, 0) is let pass; NULL with a size is, unless UMEM_DEBUG=checknull.
static void free_null(size_t size)
{
	if (size != 0 && debugging() && umem_options.check_null)
		guard_fault(&(struct guard_fault){ .call = "umem_free", .finding = "NULL with a size that is not 0" });
}

static __attribute__((noinline)) void free_slow(void *buffer, size_t size)
{
	if (buffer == NULL)
		free_null(size);
	else if (debugging())
		debug_free(GUARD_UMEM, buffer, size, "umem_free");
	else if (UNLIKELY(size == 0))
		guard_report("umem_free", buffer, "freed with size 0, which nobody was given", 0);
	else if (sizes_changed())
		umem_sizes_free(buffer, size);
	else if (!sampled_push(buffer))
		heap_free_sized(buffer, 0, size, "umem_free");
}

EXPORT void umem_free(void *buffer, size_t size)
{
	if (UNLIKELY(buffer == NULL || !front_is_short(size)))
		free_slow(buffer, size);
	else
		fast_free_sized_served(buffer, size, free_slow);
}

EXPORT void *umem_alloc_align(size_t size, size_t align, int flags)
{
	return align == 0 || is_power_of_two(align) ? alloc_slow(size, max_size(align, 16), GUARD_UMEM_ALIGN, flags) : NULL;
}

EXPORT void umem_free_align(void *buffer, size_t size)
{
	if (buffer == NULL)
		free_null(size);
	else if (debugging())
		debug_free(GUARD_UMEM_ALIGN, buffer, size, "umem_free_align");
	else {
		size_t real = heap_usable_size(buffer, "umem_free_align");

		if (UNLIKELY(size > real || size == 0))
			guard_report("umem_free_align", buffer, "freed with a wrong size, it is a buffer of %zu bytes", real);
		heap_free(buffer, "umem_free_align");
	}
}

EXPORT void umem_setmtbf(uint32_t mean)
{
	guard_set_mtbf(mean);
}
