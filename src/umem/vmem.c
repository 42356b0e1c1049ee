// Exported: libumem's vmem functions, which are those of vmag/vmem.h by other names and the same flags.
// SPDX-License-Identifier: BSD-2-Clause
#include <sys/vmem.h>
#include <vmag/vmem.h>

#include "util/bits.h"

// Flags that mean something outside a kernel, and those that an import function is handed.
enum { FLAGS = VM_KMFLAGS | VM_BESTFIT | VM_FIRSTFIT | VM_NEXTFIT };

static vmag_vmem_t *ours(vmem_t *arena)
{
	return (vmag_vmem_t *)arena;
}

EXPORT vmem_t *vmem_create(const char *name, void *base, size_t size, size_t quantum, vmem_alloc_t *import,
			   vmem_free_t *release, vmem_t *source, size_t qcache_max, int flags)
{
	// The two kinds of functions differ in the name of their first argument's type alone.
	return (vmem_t *)vmag_vmem_create(name, base, size, quantum, (vmag_vmem_alloc_t *)(void (*)(void))import,
					  (vmag_vmem_free_t *)(void (*)(void))release, ours(source),
					  flags & VMC_NO_QCACHE ? 0 : qcache_max, flags & FLAGS);
}

EXPORT void vmem_destroy(vmem_t *arena)
{
	vmag_vmem_destroy(ours(arena));
}

EXPORT void *vmem_alloc(vmem_t *arena, size_t size, int flags)
{
	return vmag_vmem_alloc(ours(arena), size, flags & FLAGS);
}

EXPORT void vmem_free(vmem_t *arena, void *start, size_t size)
{
	vmag_vmem_free(ours(arena), start, size);
}

EXPORT void *vmem_xalloc(vmem_t *arena, size_t size, size_t align, size_t phase, size_t nocross, void *least, void *most,
			 int flags)
{
	return vmag_vmem_xalloc(ours(arena), size, align, phase, nocross, least, most, flags & FLAGS);
}

EXPORT void vmem_xfree(vmem_t *arena, void *start, size_t size)
{
	vmag_vmem_xfree(ours(arena), start, size);
}

EXPORT void *vmem_add(vmem_t *arena, void *start, size_t size, int flags)
{
	return vmag_vmem_add(ours(arena), start, size, flags & FLAGS);
}

EXPORT int vmem_contains(vmem_t *arena, void *start, size_t size)
{
	return vmag_vmem_contains(ours(arena), start, size);
}

EXPORT void vmem_walk(vmem_t *arena, int kinds, void (*function)(void *argument, void *start, size_t size), void *argument)
{
	vmag_vmem_walk(ours(arena), kinds, function, argument);
}

EXPORT size_t vmem_size(vmem_t *arena, int kinds)
{
	return vmag_vmem_size(ours(arena), kinds);
}

EXPORT vmem_t *vmem_heap_arena(vmem_alloc_t **import, vmem_free_t **release)
{
	vmag_vmem_alloc_t *alloc;
	vmag_vmem_free_t *free;
	vmem_t *arena = (vmem_t *)vmag_vmem_heap_arena(&alloc, &free);

	if (import != NULL)
		*import = (vmem_alloc_t *)(void (*)(void))alloc;
	if (release != NULL)
		*release = (vmem_free_t *)(void (*)(void))free;
	return arena;
}
