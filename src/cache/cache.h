// Object caches: a bin of slabs, a depot, and two magazines for each thread, with constructed objects in between
// (2001, §3, §5).
//
//   front    what a thread keeps of a cache: loaded and previous magazine        front.h
//     │ miss: exchange with the depot
//   depot    magazines of constructed objects                                    magazine/depot.h
//     │ miss: one buffer and its constructor (or a batch, where there is none)   objects.c
//   bin      slabs of raw buffers                                                slab/bin.h
//     │ slabs from pages of the heap or from any arena                           slabs.h
//
// Invariants: 1. what is in a magazine is constructed, what is free in a slab is not; 2. no lock is held while constructor,
// destructor, reclaim, move, import or release runs; 3. a cache is in the table (table.c) from the end of its creation
// until it is destroyed but for its memory, and from the beginning of that on nobody pins it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "magazine/depot.h"
#include "slab/bin.h"
#include "vmag/cache.h"

enum { CACHES_MOST = 16384, CACHE_NAME_BYTES = 32 };

// Where slabs come from: any arena, by two functions and an argument. import NULL: pages of the heap.
struct cache_source {
	void *(*import)(void *source, size_t size, int flags); // NULL: none; without locks
	void (*release)(void *source, void *start, size_t size);
	void *source;
	size_t quantum; // sizes and places of imports are multiples of it
	size_t total;   // all that there will be; 0: not known
	void *root;     // of the source: what this holds may serve all that draw on that
};

struct cache_description {
	const char *name;
	size_t size, align;
	vmag_constructor_t *constructor;
	vmag_destructor_t *destructor;
	vmag_reclaim_t *reclaim;
	void *argument;
	struct cache_source source;
	size_t slab_bytes;     // 0: chosen
	const char *free_name; // of the freeing function, in reports; NULL: vmag_cache_free
	int flags;             // VMAG_CACHE_…
};

struct cache_slab;

struct vmag_cache {
	// Constant after creation.
	vmag_constructor_t *constructor; // first: base keeps its list in the first word of what is free, and who uses a destroyed cache shall be told
	const char *free_name;
	unsigned id; // index in the table and in the threads' tops
	uint16_t fast_place; // of its top on the fast path (cache/front.h)
	int flags;
	size_t object_bytes, align;
	vmag_destructor_t *destructor;
	vmag_reclaim_t *reclaim;
	void *argument;
	struct cache_source source;
	unsigned least_rounds, most_rounds; // of magazines
	unsigned contended_rounds; // at most, where threads meet at the depot
	unsigned colours;
	char name[CACHE_NAME_BYTES];
	uint64_t number; // of all caches ever
	// Atomic.
	_Atomic uint32_t told; // the trace's file that has its name (watch/trace_stacks.h)
	vmag_move_t *_Atomic move;
	_Atomic unsigned rounds;    // of a new magazine
	_Atomic unsigned next_colour;
	_Atomic uint32_t pins;      // who may use the cache although it is about to be destroyed
	_Atomic uint32_t freed;     // changes when a buffer comes back; sleepers wait on it
	_Atomic uint32_t sleepers;
	void *_Atomic reclaimer;    // words of the thread that is in the reclaim callback
	_Atomic bool moving;        // somebody consolidates
	bool leaving;               // under the table's lock: it is being destroyed, nobody pins it any more
	_Atomic uint32_t carriers;  // who takes rounds or buffers from one place to another; and how often somebody began to (objects.h)
	_Atomic uint32_t carries;
	_Atomic bool lost_rounds;   // a fork lost other threads' magazines
	_Atomic unsigned looks;     // of fronts since the last update
	_Atomic uint64_t updated_at, tuned_at; // ms
	_Atomic uint64_t alloc_failures, constructor_failures, reaps, moves, resizes;
	// Under the depot's lock (update.c).
	uint64_t visits_before, contentions_before;
	unsigned meeting_ms; // time that has yet to pass without threads meeting at the depot
	unsigned steady_ms;  // for how long magazines have not grown, at most until a size is steady
	// Of who moved updated_at on.
	unsigned quiet; // updates in a row in which fronts hardly missed
	// Each with its lock.
	struct depot depot;
	struct bin bin;
	// Under the bin's lock (slabs.c).
	struct cache_slab *slabs;    // all
	struct cache_slab **buckets; // slabs by address, when the source is no memory of the heap
	unsigned lg_buckets, lg_window;
	unsigned sparse_count; // those that who consolidates has yet to look at (move.c), the lowest first, and
	struct cache_slab **sparse; // NULL for those that left meanwhile
	uint64_t creates, destroys;
};

// NULL with errno, as vmag_cache_create. The heap is ready.
struct vmag_cache *cache_create(const struct cache_description *description);

// As vmag_cache_destroy; `call` is named in the report of objects that were not freed. NULL is let pass.
void cache_destroy(struct vmag_cache *cache, const char *call);

// After a miss of the front: as vmag_cache_alloc and vmag_cache_free. free keeps errno.
void *cache_alloc(struct vmag_cache *cache, int flags);
void cache_free(struct vmag_cache *cache, void *object);

// As vmag_cache_alloc_batch and vmag_cache_free_batch; unwatched.
size_t cache_alloc_batch(struct vmag_cache *cache, void **objects, size_t count, int flags);
void cache_free_batch(struct vmag_cache *cache, void *const *objects, size_t count);

// Gives back what is cached and unused: this thread's magazines, the depot, the empty slab.
void cache_reap(struct vmag_cache *cache);

// The same after asking the reclaim callback, if nobody is asking it already.
void cache_reclaim(struct vmag_cache *cache);

// Moves objects out of at most that many sparse slabs. Returns how many objects moved.
size_t cache_consolidate(struct vmag_cache *cache, unsigned slabs);
void cache_stats(struct vmag_cache *cache, struct vmag_cache_stats *stats);
bool cache_walk(struct vmag_cache *cache, void (*function)(void *argument, void *object), void *argument);
