// Quantum caches: creation, the slow ways, and what is served past them.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/quantum.h"

#include <errno.h>

#include "cache/table.h"
#include "conf/umem_options.h"
#include "util/bits.h"
#include "util/format.h"

enum { SLAB_LEAST = 64 }; // of the arena's integers

static void *import(void *arena, size_t size, int flags)
{
	return (void *)resource_try(arena, size, flags);
}

static void release(void *arena, void *start, size_t size)
{
	resource_free(arena, (uintptr_t)start, size, "vmag_vmem_free");
}

static size_t slab_bytes_of(const struct vmag_vmem *arena)
{
	return max_size((size_t)2 << lg_floor(3 * arena->qcache_max), SLAB_LEAST);
}

static struct vmag_cache *create_one(struct vmag_vmem *arena, size_t size)
{
	char name[CACHE_NAME_BYTES + 24];

	text_print(name, sizeof name, "%s_%zu", arena->name, size);
	return cache_create(&(struct cache_description){
		.name = name,
		.size = size,
		.source = { import, release, arena, (size_t)1 << arena->lg_quantum, 0, arena->root },
		.slab_bytes = slab_bytes_of(arena),
		.free_name = "vmag_vmem_free",
		.flags = VMAG_CACHE_NOTOUCH | VMAG_CACHE_QUANTUM | (umem_options.no_magazines ? VMAG_CACHE_NOMAGAZINE : 0),
	});
}

bool quantum_create(struct vmag_vmem *arena)
{
	size_t quantum = (size_t)1 << arena->lg_quantum;

	for (unsigned i = 0; i < arena->qcache_max / quantum; i++) {
		struct vmag_cache *cache = create_one(arena, (i + 1) * quantum);

		if (cache == NULL) {
			quantum_destroy(arena);
			return false;
		}
		arena->quantum[i] = cache;
		arena->quantum_place[i] = cache->fast_place;
		arena->quantum_id[i] = (uint16_t)cache->id;
	}
	return true;
}

void quantum_destroy(struct vmag_vmem *arena)
{
	for (unsigned i = 0; i < RESOURCE_QUANTUM_CACHES; i++) {
		cache_destroy(arena->quantum[i], "vmag_vmem_destroy");
		arena->quantum[i] = NULL;
	}
}

static void count_direct(struct vmag_vmem *arena, int by)
{
	atomic_fetch_add(&arena->direct, (uint32_t)by);
	resource_take_care(arena, by);
}

struct request {
	struct vmag_vmem *arena;
	size_t size;
	int flags;
};

// From the cache, which also takes back what its siblings do not need; else from the segments.
static uintptr_t attempt(void *request_)
{
	const struct request *request = request_;
	struct vmag_vmem *arena = request->arena;
	int saved = errno;
	void *object = cache_alloc(quantum_cache(arena, request->size), VMAG_NOSLEEP);
	uintptr_t start = object != NULL ? (uintptr_t)object : resource_try(arena, request->size, request->flags);

	if (object == NULL && start != 0) {
		count_direct(arena, 1);
		errno = saved;
	}
	return start;
}

void *quantum_alloc(struct vmag_vmem *arena, size_t size, int flags, const char *call)
{
	struct request request = { arena, size, flags };

	return (void *)resource_obtain(arena, attempt, &request, size, flags, call);
}

// No slab is as small as what a quantum cache serves.
static bool is_direct(struct vmag_vmem *arena, void *address, size_t size)
{
	return atomic_load(&arena->direct) > 0 &&
	       vmem_segment_size(&arena->segments, (uintptr_t)address) == round_up(size, (size_t)1 << arena->lg_quantum);
}

void quantum_free(struct vmag_vmem *arena, void *address, size_t size, const char *call)
{
	bool direct = is_direct(arena, address, size);

	if (direct || address == NULL) { // NULL is told there
		if (direct)
			count_direct(arena, -1);
		resource_free(arena, (uintptr_t)address, size, call);
		return;
	}
	cache_free(quantum_cache(arena, size), address);
	if (resource_is_awaited(arena)) {
		caches_reap(true, arena->root);
		resource_tell(arena);
	}
}
