// Allocates by every entry point of the library, each from a function of its own, named by_…: the stacks that are recorded must end there.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "jemalloc/jemalloc.h"
#include "sys/vmem.h"
#include "umem.h"
#include "vmag/allocm.h"
#include "vmag/cache.h"
#include "vmag/vmem.h"

enum { TIMES = 300 };

// Operators new of C++, by their names in C.
void *_Znwm(size_t), *_Znam(size_t), *_ZnwmSt11align_val_t(size_t, size_t), *_ZnamSt11align_val_t(size_t, size_t);
void *_ZnwmRKSt9nothrow_t(size_t, const char *), *_ZnamRKSt9nothrow_t(size_t, const char *);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, const char *), *_ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, const char *);
void *memalign(size_t, size_t), *valloc(size_t), *pvalloc(size_t);

static void *volatile kept;
static umem_cache_t *objects;
static vmag_cache_t *sessions;
static vmag_reserve_t *reserve;
static vmem_t *arena;
static vmag_vmem_t *ports;

// Something comes after the call, so that it is no jump.
#define ENTRY(name, call)                                                          \
	static __attribute__((noinline)) void by_##name(size_t size)               \
	{                                                                          \
		(void)size;                                                        \
		kept = (void *)(call);                                             \
	}

static void *posix(size_t align, size_t size)
{
	void *object = NULL;

	return posix_memalign(&object, align, size) == 0 ? object : NULL;
}

static void *old(size_t size)
{
	void *object = NULL;

	return allocm(&object, NULL, size, 0) == 0 ? object : NULL;
}

static void *old_grown(size_t size)
{
	void *object = NULL;

	return allocm(&object, NULL, 1, 0) == 0 && rallocm(&object, NULL, size, 0, 0) == 0 ? object : NULL;
}

static void *batch(size_t count)
{
	void *some[16];

	return vmag_cache_alloc_batch(sessions, some, count % 16 + 1, VMAG_NOSLEEP) > 0 ? some[0] : NULL;
}

ENTRY(malloc, malloc(size))
ENTRY(calloc, calloc(1, size))
ENTRY(realloc, realloc(NULL, size))
ENTRY(realloc_grown, realloc(malloc(1), size))
ENTRY(realloc_shrunk, realloc(malloc(2 * size), size))
ENTRY(reallocarray, reallocarray(NULL, 2, size))
ENTRY(aligned_alloc, aligned_alloc(64, size))
ENTRY(aligned_pages, aligned_alloc(65536, size))
ENTRY(memalign, memalign(128, size))
ENTRY(posix_memalign, posix(256, size))
ENTRY(valloc, valloc(size))
ENTRY(pvalloc, pvalloc(size))
ENTRY(strdup, strdup("a string of some length"))
ENTRY(mallocx, mallocx(size, 0))
ENTRY(mallocx_all, mallocx(size, MALLOCX_ALIGN(64) | MALLOCX_ZERO | MALLOCX_TCACHE_NONE))
ENTRY(mallocx_arena, mallocx(size, MALLOCX_ARENA(0)))
ENTRY(rallocx, rallocx(malloc(1), size, 0))
ENTRY(xallocx, xallocx(malloc(size), size + 32, size + 32, 0))
ENTRY(allocm, old(size))
ENTRY(rallocm, old_grown(size))
ENTRY(new, _Znwm(size))
ENTRY(new_array, _Znam(size))
ENTRY(new_aligned, _ZnwmSt11align_val_t(size, 64))
ENTRY(new_array_aligned, _ZnamSt11align_val_t(size, 64))
ENTRY(new_nothrow, _ZnwmRKSt9nothrow_t(size, ""))
ENTRY(new_array_nothrow, _ZnamRKSt9nothrow_t(size, ""))
ENTRY(new_aligned_nothrow, _ZnwmSt11align_val_tRKSt9nothrow_t(size, 64, ""))
ENTRY(new_array_aligned_nothrow, _ZnamSt11align_val_tRKSt9nothrow_t(size, 64, ""))
ENTRY(umem_alloc, umem_alloc(size, UMEM_DEFAULT))
ENTRY(umem_zalloc, umem_zalloc(size, UMEM_DEFAULT))
ENTRY(umem_alloc_align, umem_alloc_align(size, 128, UMEM_DEFAULT))
ENTRY(umem_cache_alloc, umem_cache_alloc(objects, UMEM_DEFAULT))
ENTRY(vmag_cache_alloc, vmag_cache_alloc(sessions, VMAG_NOSLEEP))
ENTRY(vmag_cache_alloc_batch, batch(size))
ENTRY(vmag_reserve_alloc, vmag_reserve_alloc(reserve))
ENTRY(vmem_alloc, vmem_alloc(arena, size, VM_NOSLEEP))
ENTRY(vmem_xalloc, vmem_xalloc(arena, size, 64, 0, 0, NULL, NULL, VM_NOSLEEP))
ENTRY(vmag_vmem_alloc, vmag_vmem_alloc(ports, size, VMAG_VM_NOSLEEP))
ENTRY(vmag_vmem_xalloc, vmag_vmem_xalloc(ports, size, 64, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP))

// Of an object cache, from the library.
static int by_constructor(void *object, void *argument, int flags)
{
	(void)argument;
	(void)flags;
	kept = *(void **)object = malloc(100);
	return 0;
}

static void (*const all[])(size_t) = {
	by_malloc, by_calloc, by_realloc, by_realloc_grown, by_realloc_shrunk, by_reallocarray, by_aligned_alloc, by_aligned_pages, by_memalign,
	by_posix_memalign, by_valloc, by_pvalloc, by_strdup, by_mallocx, by_mallocx_all, by_mallocx_arena, by_rallocx, by_xallocx, by_allocm, by_rallocm,
	by_new, by_new_array, by_new_aligned, by_new_array_aligned, by_new_nothrow, by_new_array_nothrow, by_new_aligned_nothrow,
	by_new_array_aligned_nothrow, by_umem_alloc, by_umem_zalloc, by_umem_alloc_align, by_umem_cache_alloc, by_vmag_cache_alloc,
	by_vmag_cache_alloc_batch, by_vmag_reserve_alloc, by_vmem_alloc, by_vmem_xalloc, by_vmag_vmem_alloc, by_vmag_vmem_xalloc,
};

static __attribute__((noinline)) void by_creation(void)
{
	objects = umem_cache_create("objects", 200, 0, by_constructor, NULL, NULL, NULL, NULL, 0);
	sessions = vmag_cache_create("sessions", 500, 0, NULL, NULL, NULL, NULL, NULL, 0);
	reserve = vmag_cache_reserve(sessions, TIMES, VMAG_NOSLEEP);
	arena = vmem_create("arena", (void *)(1ul << 44), 1ul << 40, 16, NULL, NULL, NULL, 64, VM_NOSLEEP);
	ports = vmag_vmem_create("ports", (void *)(1ul << 45), 1ul << 40, 16, NULL, NULL, NULL, 0, VMAG_VM_NOSLEEP);
}

int main(void)
{
	static const size_t sizes[] = { 16, 100, 1000, 5000, 20000 }, large[] = { 100000, 1000000, 5000000 };

	by_creation();
	for (size_t entry = 0; entry < sizeof all / sizeof *all; entry++) {
		for (size_t i = 0; i < TIMES; i++)
			all[entry](sizes[i % 5]);
		for (size_t i = 0; i < 3; i++)
			all[entry](large[i]);
	}
	return 0;
}
