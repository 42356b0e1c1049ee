// Bin: the slabs of one size of one arena; buffers come and go in batches.
//
// The partial slab with the lowest address serves first (2011, "prefer low addresses during re-use"), its buffers in
// address order. One empty slab is kept, so that a single malloc and free cannot create and destroy slabs (2006, hysteresis).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/mutex.h"
#include "pages/runs.h"
#include "slab/slab.h"

struct bin;

// Where slabs come from that are not plain pages of the heap, and how a slab is found from an address (object caches).
struct slab_source {
	// A slab with its run filled in and all buffers free, NULL: no memory; and its end. Without locks.
	struct slab *(*create)(struct bin *bin);
	void (*destroy)(struct bin *bin, struct slab *slab);
	// A slab joins the bin or leaves it. Under the bin's lock.
	void (*join)(struct bin *bin, struct slab *slab);
	void (*leave)(struct bin *bin, struct slab *slab);
	// The slab in which the address lies, NULL: none of the bin's; `*index`: the buffer's number, or −1. Under the bin's lock.
	struct slab *(*find)(struct bin *bin, const void *address, long *index);
};

struct bin {
	// Constant after bin_init.
	struct slab_shape shape;
	struct pages *pages;
	const struct slab_source *source; // NULL: pages, found by the page map
	uint16_t word; // in the page map, for every granule of a slab; 0: not the program's objects
	uint16_t arena;

	struct mutex lock __attribute__((aligned(CACHE_LINE)));
	// Under lock.
	struct heap_node *partial; // slabs with free and with used buffers
	struct slab *empty;        // at most one
	size_t slabs;        // a larger one counts for as many as it is times as large, here and below
	size_t free_buffers; // in all slabs
	uint64_t filled, drained; // buffers handed out and taken back
	uint64_t fills, drains;   // in so many batches
	uint64_t slabs_made, slabs_used_up;
	size_t partial_slabs, slabs_most;
	uint64_t filled_at_trim;
	uint64_t fills_at_walk; // of holes (slab/holes.h), and
	bool rests;             // whether nothing was taken between the last two
} __attribute__((aligned(CACHE_LINE)));

// Of zero memory: a bin of an arena's class, without slabs; `word` is what the page map is to say of its slabs.
void bin_init(struct bin *bin, struct slab_shape shape, struct pages *pages, uint16_t arena, uint16_t word);

// The same with slabs from elsewhere; the source finds its own things from the bin's address.
void bin_init_from(struct bin *bin, struct slab_shape shape, const struct slab_source *source);

// Fills in a slab at `start`, 2^lg_times as large as the bin's shape says, with all buffers free.
void slab_init(struct slab *slab, struct bin *bin, uintptr_t start, unsigned lg_times);

// Takes up to `count` free buffers out of the slabs there are; they lie at rounds[count − got … count − 1], the lowest
// address last. Returns got.
size_t bin_fill(struct bin *bin, void **rounds, size_t count);

// The same for who has the bin alone: if the buffers are few and at most as large as a cache line, none is the neighbour of another
// as long as there are others, and they are in no order.
size_t bin_fill_apart(struct bin *bin, void **rounds, size_t count);

// Takes one, for a thread whose objects come one by one: beside the last one that it got, `near`, or where all eight neighbours are
// free, so that two threads' objects seldom share a cache line. NULL: there is none.
void *bin_take(struct bin *bin, const void *near);

// Adds a slab, of a bin that has much a larger one. False: no memory. Calls the operating system.
bool bin_grow(struct bin *bin);

// Buffers handed out, those in magazines among them; an estimate while others run.
static inline size_t bin_used(const struct bin *bin)
{
	return __atomic_load_n(&bin->slabs, __ATOMIC_RELAXED) * bin->shape.buffers - __atomic_load_n(&bin->free_buffers, __ATOMIC_RELAXED);
}

enum bin_finding { BIN_OK, BIN_NOT_HERE, BIN_NOT_A_START, BIN_FREE_ALREADY };

// Puts buffers back into their slabs. Stops at the first that is not a live buffer of this bin and tells which; nothing
// further is done then. `*done`: how many were put back. NULL rounds are passed over.
enum bin_finding bin_drain(struct bin *bin, void *const *rounds, size_t count, size_t *done);

// Gives the empty slab back to the pages; unless `always`, only when no buffer was handed out since the last call.
void bin_trim(struct bin *bin, bool always);

// What bin_drain would find, doing nothing; for bins with a source.
enum bin_finding bin_probe(struct bin *bin, const void *address);
// Forgets all slabs, whose memory is the caller's from now on.
void bin_forget(struct bin *bin);

// Checks all slabs on the partial heap; aborts when something is wrong. For debug builds and tests.
void bin_check(struct bin *bin);
