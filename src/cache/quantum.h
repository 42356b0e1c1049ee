// Quantum caches: object caches of the first few multiples of an arena's quantum, in front of its segments (2001, §4.4.4).
//
// All quantum caches of an arena have slabs of one size, the next power of two above three times the largest, so that what
// is taken from the segments fits where it was (2001, §4.4.5). When not even that is free, requests are served from the
// segments directly, lest one fail while there is a place; such segments are counted, and as long as there are any, freeing
// looks whether it got one.
// What threads keep in their magazines counts as allocated. A request that finds nothing takes back what this thread and the
// depots hold; what other threads' magazines hold comes back when these come by, at their next free at the latest while somebody
// sleeps.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/front.h"
#include "vmem/resource.h"

// Builds the caches for arena->qcache_max, before the arena is published. False, and there are none: no memory, no number left for one of them, or no slab of
// so large quanta. The heap is ready.
bool quantum_create(struct vmag_vmem *arena);
void quantum_destroy(struct vmag_vmem *arena);

// The cache of a size from 1 to qcache_max.
static inline struct vmag_cache *quantum_cache(const struct vmag_vmem *arena, size_t size)
{
	return arena->quantum[(size - 1) >> arena->lg_quantum];
}

// After a miss; as resource_alloc and resource_free.
void *quantum_alloc(struct vmag_vmem *arena, size_t size, int flags, const char *call);
void quantum_free(struct vmag_vmem *arena, void *address, size_t size, const char *call);

// Whether quantum caches serve a size; of an address that is freed, whether none of it can have come from the segments.
static inline bool quantum_serves(const struct vmag_vmem *arena, size_t size)
{
	return size - 1 < arena->qcache_max;
}

static inline bool quantum_may_push(struct vmag_vmem *arena, const void *address, size_t size)
{
	return size - 1 < arena->short_free_max && address != NULL;
}

// Then. NULL, false: a miss. First the thread's own tops, then the processor's, then, where nothing is in such a hurry, whatever the door.
static inline void *quantum_pop(const struct vmag_vmem *arena, size_t size)
{
	return cache_front_pop_of(arena->quantum_place[(size - 1) >> arena->lg_quantum]);
}

static inline void *quantum_pop_here(const struct vmag_vmem *arena, size_t size)
{
	return cache_front_pop_here(arena->quantum_id[(size - 1) >> arena->lg_quantum]);
}

static inline void *quantum_take(const struct vmag_vmem *arena, size_t size)
{
	return cache_front_take(quantum_cache(arena, size));
}

static inline bool quantum_push(struct vmag_vmem *arena, void *address, size_t size)
{
	return cache_front_push_of(arena->quantum_place[(size - 1) >> arena->lg_quantum], address);
}

static inline bool quantum_push_here(struct vmag_vmem *arena, void *address, size_t size)
{
	return cache_front_push_here(arena->quantum_id[(size - 1) >> arena->lg_quantum], address);
}

static inline bool quantum_put(struct vmag_vmem *arena, void *address, size_t size)
{
	return cache_front_put(quantum_cache(arena, size), address);
}
