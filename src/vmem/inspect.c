// Looking at resource arenas: walks, sizes, figures; and the arena of mapped pages.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "conf/umem_options.h"
#include "os/pages.h"
#include "util/bits.h"
#include "vmem/resource.h"
#include "vmem/segment.h"

enum { HEAP_IMPORT_BYTES = 1024 * 1024 };

static int type_bit(enum vmem_segment_type type)
{
	if (type == VMEM_SEGMENT_SPAN)
		return VMAG_VMEM_SPAN;
	return type == VMEM_SEGMENT_FREE ? VMAG_VMEM_FREE : VMAG_VMEM_ALLOC;
}

void resource_walk(struct vmag_vmem *arena, int mask, void (*function)(void *argument, void *address, size_t size), void *argument)
{
	struct vmem_cursor cursor;
	struct vmem_range range;

	vmem_walk_begin(&arena->segments, &cursor);
	while (vmem_walk_next(&arena->segments, &cursor, &range))
		if (mask & type_bit(range.type))
			function(argument, (void *)range.start, range.size - range.unused);
	vmem_walk_end(&arena->segments, &cursor);
}

// Each figure is read once, none under the lock: the sum may be off by what happens meanwhile.
size_t resource_size(struct vmag_vmem *arena, int mask)
{
	size_t total = __atomic_load_n(&arena->segments.total_bytes, __ATOMIC_RELAXED);
	size_t in_use = min_size(atomic_load_explicit(&arena->in_use, memory_order_relaxed), total);
	size_t size = 0;

	if (mask & VMAG_VMEM_ALLOC)
		size += in_use;
	if (mask & VMAG_VMEM_FREE)
		size += total - in_use;
	if (mask & VMAG_VMEM_SPAN)
		size += total;
	if (mask & VMAG_VMEM_MAXFREE)
		size += vmem_largest(&arena->segments);
	return size;
}

void resource_stats(struct vmag_vmem *arena, struct vmag_vmem_stats *stats)
{
	struct vmem *segments = &arena->segments;

	mutex_lock(&segments->lock);
	*stats = (struct vmag_vmem_stats){
		.in_use_bytes = atomic_load_explicit(&arena->in_use, memory_order_relaxed),
		.total_bytes = segments->total_bytes,
		.imported_bytes = segments->imported_bytes,
		.segments = segments->segments_allocated,
		.spans = segments->span_count,
		.allocs = segments->allocs,
		.frees = segments->frees,
		.fails = atomic_load_explicit(&arena->fails, memory_order_relaxed),
		.waits = atomic_load_explicit(&arena->waits, memory_order_relaxed),
		.imports = segments->imports,
		.releases = segments->releases,
		.lookups = segments->lookups,
		.searches = segments->searches,
		.populate_fails = segments->populate_fails,
		.hash_buckets = (size_t)1 << segments->lg_buckets,
		.quantum = (size_t)1 << segments->lg_quantum,
		.qcache_max = arena->qcache_max,
	};
	mutex_unlock(&segments->lock);
}

static void *map_pages(struct vmag_vmem *source, size_t size, int flags)
{
	(void)source;
	(void)flags;
	return os_pages_map_for_program(size);
}

static struct vmag_vmem *_Atomic heap;

// It is free again, and released once more after it was used. The tags are those that its release left, unless another thread took them.
static COLD void keep_span(struct vmem *segments, uintptr_t start, size_t size)
{
	if (!lock_with_tags(segments, TAGS_OF_SPAN))
		return;
	vmem_span_insert(segments, start, size, true);
	mutex_unlock(&segments->lock);
}

// What the kernel does not unmap, in a process that has all its mappings, is not resident meanwhile.
static void unmap_pages(struct vmag_vmem *source, void *address, size_t size)
{
	(void)source;
	if (os_pages_unmap(address, size))
		return;
	os_pages_purge(address, size);
	keep_span(&atomic_load(&heap)->segments, (uintptr_t)address, size);
}

struct vmag_vmem *resource_heap_arena(void)
{
	struct vmag_vmem *arena = atomic_load(&heap), *expected = NULL;

	if (arena != NULL)
		return arena;
	arena = resource_create("heap", 0, 0, os_page_size(), map_pages, unmap_pages, NULL, 0, VMAG_VM_NOSLEEP);
	if (arena == NULL)
		return NULL;
	arena->segments.import_unit = HEAP_IMPORT_BYTES;
	arena->policy = (int)umem_options.heap_policy;
	resource_publish(arena);
	if (atomic_compare_exchange_strong(&heap, &expected, arena))
		return arena;
	resource_destroy(arena); // another thread was faster
	return expected;
}
