// Resource arenas: vmem as programs see it (include/vmag/vmem.h) but for the quantum caches, which stand above.
//
// A resource arena is an arena of the engine with a name, flags with a meaning, and who waits. All of them are on a list, for
// fork and for reports.
//
// Waiting: a request that may sleep counts itself among the waiters of its arena and of all arenas that it imports from, tries
// again, and only then sleeps, on the word `changes` of the last of these, the root. Who frees does so under its arena's lock and
// looks at the number of waiters afterwards: either it sees the waiter, or the waiter's second try sees what was freed.
// Import functions may bring things from elsewhere, and memory for tags may be short: nobody here sees that change, so
// sleeping ends by itself, after 10 ms at first, then less and less often. Import is asked not to sleep: here is slept.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmag/vmem.h>

#include "vmem/vmem.h"

enum { RESOURCE_NAME_BYTES = 64, RESOURCE_QUANTUM_CACHES = 16 };

struct vmag_vmem {
	// Constant after resource_publish.
	struct vmem segments;
	char name[RESOURCE_NAME_BYTES];
	vmag_vmem_alloc_t *import;
	vmag_vmem_free_t *release;
	struct vmag_vmem *source;
	int policy; // of requests that say none: a flag
	struct vmag_vmem *root; // source of source of … this one
	unsigned lg_quantum;
	uint16_t quantum_place[RESOURCE_QUANTUM_CACHES]; // of the tops of the object caches of the floor above, by number of quanta − 1
	uint16_t quantum_id[RESOURCE_QUANTUM_CACHES]; // their ids
	size_t qcache_max; // 0: no quantum caches
	size_t short_free_max; // qcache_max, or 0 while there is reason for care: freeing then takes the long way. Written atomically, read
			       // plainly, as one operand of a comparison
	void *quantum[RESOURCE_QUANTUM_CACHES];
	// Atomic, and rarely written.
	_Atomic uint32_t waiters;
	_Atomic uint32_t direct; // segments within qcache_max that are from no quantum cache
	_Atomic uint32_t care;   // the sum of the two
	_Atomic uint32_t told;   // the trace's file that has its name (watch/trace_stacks.h)
	_Atomic size_t uneven;   // allocated segments of which no whole number of quanta was asked for

	// Under the lock of the segments: what all spans lie in that it has or had. 0: there were none.
	uintptr_t spans_from, spans_to;

	// Under the lock of the list.
	struct vmag_vmem *next, *previous;
	uint64_t number; // of all arenas ever, ascending along the list
	unsigned pins;   // callbacks that run on it

	// Atomic.
	_Atomic size_t in_use __attribute__((aligned(CACHE_LINE))); // bytes, as asked for
	_Atomic uint64_t fails, waits;
	_Atomic uint32_t changes; // of a root: something was freed where somebody waits
};

// As vmag_vmem_create; `qcache_max` is kept, cut to RESOURCE_QUANTUM_CACHES quanta. NULL and errno. Nobody else knows it until it is published.
struct vmag_vmem *resource_create(const char *name, uintptr_t base, size_t size, size_t quantum, vmag_vmem_alloc_t *import,
				  vmag_vmem_free_t *release, struct vmag_vmem *source, size_t qcache_max, int flags);
void resource_publish(struct vmag_vmem *arena);
void resource_destroy(struct vmag_vmem *arena);

// As vmag_vmem_add. `call`: for reports of misuse. False, and errno: not possible.
bool resource_add(struct vmag_vmem *arena, uintptr_t start, size_t size, int flags, const char *call);

// Past the quantum caches. `call`: for reports of misuse. 0 and ENOMEM: no place, and flags do not say to wait.
uintptr_t resource_alloc(struct vmag_vmem *arena, size_t size, int flags, const char *call);
uintptr_t resource_xalloc(struct vmag_vmem *arena, size_t size, const struct vmem_constraint *constraint, int flags,
			  const char *call);
void resource_free(struct vmag_vmem *arena, uintptr_t start, size_t size, const char *call);

// One attempt, without waiting and without a word about failure.
uintptr_t resource_try(struct vmag_vmem *arena, size_t size, int flags);

// Attempts as often as flags demand, sleeping in between; failure is counted and told as in resource_alloc. The attempt
// allocates in this arena and counts what is in use.
uintptr_t resource_obtain(struct vmag_vmem *arena, uintptr_t (*attempt)(void *context), void *context, size_t size, int flags,
			  const char *call);

// What is called without locks when there is no room, lest others keep what they do not need: the object caches on arenas of that root. After it there is one more attempt.
extern void (*resource_shortage)(struct vmag_vmem *root) HIDDEN;

// Adds to `care`.
void resource_take_care(struct vmag_vmem *arena, int by);

// Wakes who sleeps: something may be there now.
void resource_tell(struct vmag_vmem *arena);

// Whether somebody sleeps until something is freed.
static inline bool resource_is_awaited(struct vmag_vmem *arena)
{
	return atomic_load_explicit(&arena->waiters, memory_order_relaxed) > 0;
}

// Calls the function for each arena without a lock, the oldest first; it must not destroy that one.
void resource_each(void (*function)(void *argument, struct vmag_vmem *arena), void *argument);

// The arena of mapped zero pages, made at first use. NULL: no memory.
struct vmag_vmem *resource_heap_arena(void);

// As vmag_vmem_walk, vmag_vmem_size, vmag_vmem_stats.
void resource_walk(struct vmag_vmem *arena, int mask, void (*function)(void *argument, void *address, size_t size), void *argument);
size_t resource_size(struct vmag_vmem *arena, int mask);
void resource_stats(struct vmag_vmem *arena, struct vmag_vmem_stats *stats);

// All locks here, in the order of their ranks.
void resources_fork_prepare(void);
void resources_fork_done(bool child);
