// Statistics: one snapshot of the whole heap, pulled from the modules; nothing is counted on the fast path.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Bytes, unless the name says otherwise. Exact while no other thread is in the allocator.
struct stats {
	size_t allocated; // held by the program, rounded up to size classes
	size_t active;    // in slabs and page runs in use
	size_t dirty;     // in unused pages that are still resident
	size_t cached;    // free objects in magazines of fronts and depots
	size_t metadata;  // mapped for our own structures
	size_t mapped;    // chunks of the heap
	size_t large;     // of active: page runs of large objects
	size_t alone, alone_bytes; // objects too large for magazines, and their bytes, of allocated
	unsigned arenas;
	unsigned threads; // with a front
};

// As of now. Takes locks, one at a time; allocates nothing.
struct stats stats_snapshot(void);

// The snapshot for the black box, by class (include/vmag/format.h).
struct vmag_box_counters;
void stats_for_box(struct vmag_box_counters *counters);

// And for a dump of the profile (watch/dump.h).
bool stats_for_dump(size_t *allocated, unsigned *threads);

struct text;

// The snapshot as the fields of a JSON object, without braces; and as lines for people.
void stats_json(struct text *text, const struct stats *stats);
void stats_lines(struct text *text, const struct stats *stats);
