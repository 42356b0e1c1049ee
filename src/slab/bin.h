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

struct bin {
	// Constant after bin_init.
	struct slab_shape shape;
	struct pages *pages;
	uint16_t word; // in the page map, for every granule of a slab; 0: not the program's objects
	uint16_t arena;

	struct mutex lock __attribute__((aligned(CACHE_LINE)));
	// Under lock.
	struct heap_node *partial; // slabs with free and with used buffers
	struct slab *empty;        // at most one
	size_t slabs;
	size_t free_buffers; // in all slabs
	uint64_t filled, drained; // buffers handed out and taken back
	uint64_t filled_at_trim;
} __attribute__((aligned(CACHE_LINE)));

void bin_init(struct bin *bin, struct slab_shape shape, struct pages *pages, uint16_t arena, uint16_t word);

// Takes up to `count` free buffers out of the slabs there are; they lie at rounds[count − got … count − 1], the lowest
// address last. Returns got.
size_t bin_fill(struct bin *bin, void **rounds, size_t count);

// Adds a slab. False: no memory. Calls the operating system.
bool bin_grow(struct bin *bin);

enum bin_finding { BIN_OK, BIN_NOT_HERE, BIN_NOT_A_START, BIN_FREE_ALREADY };

// Puts buffers back into their slabs. Stops at the first that is not a live buffer of this bin and tells which; nothing
// further is done then. `*done`: how many were put back. NULL rounds are passed over.
enum bin_finding bin_drain(struct bin *bin, void *const *rounds, size_t count, size_t *done);

// Gives the empty slab back to the pages; unless `always`, only when no buffer was handed out since the last call.
void bin_trim(struct bin *bin, bool always);

// Checks all slabs on the partial heap; aborts when something is wrong. For debug builds and tests.
void bin_check(struct bin *bin);
