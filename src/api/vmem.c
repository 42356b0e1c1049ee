// vmem as programs call it: vmag_vmem_create and its kin (include/vmag/vmem.h).
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "api/needs_malloc.h"
#include "cache/quantum.h"
#include "guard/report.h"
#include "heap/heap.h"
#include "heap/sampling.h"
#include "util/bits.h"
#include "vmag/trace_format.h"
#include "vmem/resource.h"
#include "watch/trace.h"

EXPORT vmag_vmem_t *vmag_vmem_create(const char *name, void *base, size_t size, size_t quantum, vmag_vmem_alloc_t *import,
				     vmag_vmem_free_t *release, vmag_vmem_t *source, size_t qcache_max, int flags)
{
	struct vmag_vmem *arena = resource_create(name, (uintptr_t)base, size, quantum, import, release, source, qcache_max, flags);
	int saved = errno;

	if (arena == NULL)
		return NULL;
	if (arena->qcache_max != 0 && !(heap_ready() && quantum_create(arena)))
		arena->qcache_max = arena->short_free_max = 0;
	resource_publish(arena);
	errno = saved;
	return arena;
}

EXPORT void vmag_vmem_destroy(vmag_vmem_t *arena)
{
	if (arena == NULL)
		return;
	quantum_destroy(arena);
	resource_destroy(arena);
}

EXPORT void *vmag_vmem_add(vmag_vmem_t *arena, void *address, size_t size, int flags)
{
	return resource_add(arena, (uintptr_t)address, size, flags, "vmag_vmem_add") ? address : NULL;
}

// What the event trace is told.
static COLD void tell_trace(unsigned what, vmag_vmem_t *arena, const void *start, size_t size)
{
	const struct trace_source source = { VMAG_TRACE_ARENA, arena->number, (uint64_t)1 << arena->lg_quantum, arena->name, &arena->told };

	tracing_tell(what, &source, (uintptr_t)start, size);
}

static void *allocated(vmag_vmem_t *arena, void *start, size_t size)
{
	if (UNLIKELY(trace_is_on()) && start != NULL)
		tell_trace(VMAG_TRACE_ARENA_ALLOC, arena, start, size);
	return start;
}

static void freeing(vmag_vmem_t *arena, const void *start, size_t size)
{
	if (UNLIKELY(trace_is_on()))
		tell_trace(VMAG_TRACE_ARENA_FREE, arena, start, size);
}

static __attribute__((noinline)) void *alloc_slow(vmag_vmem_t *arena, size_t size, int flags)
{
	void *object = quantum_serves(arena, size) ? quantum_take(arena, size) : NULL;

	if (request_waits())
		sampling_obey();
	cache_door(!caches_are_watched());
	if (object == NULL)
		object = quantum_serves(arena, size) ? quantum_alloc(arena, size, flags, "vmag_vmem_alloc") :
							(void *)resource_alloc(arena, size, flags, "vmag_vmem_alloc");
	return allocated(arena, object, size);
}

// Apart, lest a hit of the thread's own move registers for it.
static __attribute__((noinline)) void *alloc_miss(vmag_vmem_t *arena, size_t size, int flags)
{
	void *object = quantum_pop_here(arena, size);

	return LIKELY(object != NULL) ? object : alloc_slow(arena, size, flags);
}

EXPORT void *vmag_vmem_alloc(vmag_vmem_t *arena, size_t size, int flags)
{
	if (UNLIKELY(!quantum_serves(arena, size)))
		return alloc_slow(arena, size, flags);
	void *object = quantum_pop(arena, size);

	return LIKELY(object != NULL) ? object : alloc_miss(arena, size, flags);
}

static __attribute__((noinline)) void free_slow(vmag_vmem_t *arena, void *address, size_t size)
{
	cache_door(!caches_are_watched());
	freeing(arena, address, size);
	if (quantum_may_push(arena, address, size) && quantum_put(arena, address, size))
		return;
	if (quantum_serves(arena, size))
		quantum_free(arena, address, size, "vmag_vmem_free");
	else
		resource_free(arena, (uintptr_t)address, size, "vmag_vmem_free");
}

static __attribute__((noinline)) void free_miss(vmag_vmem_t *arena, void *address, size_t size)
{
	if (UNLIKELY(!quantum_push_here(arena, address, size)))
		free_slow(arena, address, size);
}

EXPORT void vmag_vmem_free(vmag_vmem_t *arena, void *address, size_t size)
{
	if (UNLIKELY(!quantum_may_push(arena, address, size)))
		free_slow(arena, address, size);
	else if (UNLIKELY(!quantum_push(arena, address, size)))
		free_miss(arena, address, size);
}

// Why no placement at all could satisfy the constraint; NULL: some could.
static const char *contradiction(const vmag_vmem_t *arena, size_t size, const struct vmem_constraint *c)
{
	if (((c->align | c->phase | c->nocross) & (((size_t)1 << arena->segments.lg_quantum) - 1)) != 0)
		return "align, phase and nocross must be multiples of the arena's quantum (size %zu)";
	if ((c->align != 0 && !is_power_of_two(c->align)) || (c->nocross != 0 && !is_power_of_two(c->nocross)))
		return "align and nocross must be powers of two (size %zu)";
	if (c->phase != 0 && c->phase >= c->align)
		return "phase must be less than align (size %zu)";
	if (c->nocross != 0 && (size > c->nocross || (c->phase & (c->nocross - 1)) > c->nocross - size))
		return "wherever it begins, it crosses a multiple of nocross (size %zu)";
	return NULL;
}

EXPORT void *vmag_vmem_xalloc(vmag_vmem_t *arena, size_t size, size_t align, size_t phase, size_t nocross, void *least, void *most,
			      int flags)
{
	struct vmem_constraint constraint = { align, phase, nocross, (uintptr_t)least, (uintptr_t)most };
	const char *wrong = contradiction(arena, size, &constraint);
	size_t rest = -size & (((size_t)1 << arena->segments.lg_quantum) - 1);

	if (wrong != NULL)
		guard_report_in("vmag_vmem_xalloc", GUARD_NOWHERE, arena->name, wrong, size);
	if (most != NULL && constraint.most <= UINTPTR_MAX - rest)
		constraint.most += rest; // the last quantum may reach beyond, what was asked for does not
	return allocated(arena, (void *)resource_xalloc(arena, size, &constraint, flags, "vmag_vmem_xalloc"), size);
}

EXPORT void vmag_vmem_xfree(vmag_vmem_t *arena, void *address, size_t size)
{
	freeing(arena, address, size);
	resource_free(arena, (uintptr_t)address, size, "vmag_vmem_xfree");
}

EXPORT int vmag_vmem_contains(vmag_vmem_t *arena, void *address, size_t size)
{
	return vmem_covers(&arena->segments, (uintptr_t)address, size);
}

EXPORT void vmag_vmem_walk(vmag_vmem_t *arena, int mask, void (*function)(void *argument, void *address, size_t size), void *argument)
{
	resource_walk(arena, mask, function, argument);
}

EXPORT size_t vmag_vmem_size(vmag_vmem_t *arena, int mask)
{
	return resource_size(arena, mask);
}

EXPORT const char *vmag_vmem_name(const vmag_vmem_t *arena)
{
	return arena->name;
}

EXPORT vmag_vmem_t *vmag_vmem_source(const vmag_vmem_t *arena)
{
	return arena->source;
}

EXPORT void vmag_vmem_stats(vmag_vmem_t *arena, struct vmag_vmem_stats *stats, size_t size)
{
	struct vmag_vmem_stats all;

	resource_stats(arena, &all);
	memset(stats, 0, size);
	memcpy(stats, &all, min_size(size, sizeof all));
}

EXPORT void vmag_vmem_each(void (*function)(void *argument, vmag_vmem_t *arena), void *argument)
{
	resource_each(function, argument);
}

EXPORT vmag_vmem_t *vmag_vmem_heap_arena(vmag_vmem_alloc_t **import, vmag_vmem_free_t **release)
{
	if (import != NULL)
		*import = vmag_vmem_alloc;
	if (release != NULL)
		*release = vmag_vmem_free;
	heap_ready(); // reads the options
	return resource_heap_arena();
}
