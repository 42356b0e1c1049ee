// Snapshot: the figures of all arenas at one moment, pulled from the modules when the epoch is written.
//
// Nothing is counted for it on the fast path. One lock at a time is held, each for a few loads: nobody is stopped. What is
// read meanwhile may mix two snapshots; each figure by itself is whole. allocated ≤ active ≤ resident always.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap/size_class.h"
#include "os/mutex_figures.h"

enum { BINS = SLAB_CLASSES - 1 };

struct bin_figures {
	uint64_t nmalloc, ndalloc, nrequests, nfills, nflushes, nslabs, nreslabs;
	size_t curregs, curslabs, nonfull_slabs, most_slabs;
	struct mutex_figures mutex; // of the depot and of the bin
};

struct lextent_figures {
	uint64_t nmalloc, ndalloc, nrequests;
	size_t curlextents;
};

struct kind_figures {
	size_t allocated;
	uint64_t nmalloc, ndalloc, nrequests, nfills, nflushes;
};

// By the names of what jemalloc's mutexes stand for.
struct arena_mutexes {
	struct mutex_figures large; // depots of large objects
	struct mutex_figures extents_dirty; // page runs, used and free
	struct mutex_figures extents_retained; // what is kept of hooks' memory
	struct mutex_figures base, tcache_list; // shared by all arenas: told of the first
};

struct arena_figures {
	unsigned nthreads;
	bool live;
	uint64_t uptime; // ns
	ssize_t dirty_decay_ms, muzzy_decay_ms;
	size_t pactive, pdirty, pmuzzy; // pages
	size_t active, dirty, mapped, retained, base, internal, tcache_bytes, resident;
	uint64_t dirty_npurge, dirty_nmadvise, dirty_purged, muzzy_npurge, muzzy_nmadvise, muzzy_purged;
	struct kind_figures small, large;
	struct arena_mutexes mutexes;
	struct bin_figures bins[BINS];
	struct lextent_figures lextents[LARGE_CLASSES];
};

struct totals {
	size_t allocated, active, metadata, metadata_thp, resident, mapped, retained, background_threads;
	uint64_t background_runs, background_interval_ns;
	struct mutex_figures ctl, prof; // mutexes of controls; of the profiler
};

// Takes a snapshot and counts it; returns the count.
uint64_t snapshot_take(void);

// The count; the first snapshot is taken when there is none.
uint64_t snapshot_epoch(void);

const struct totals *snapshot_totals(void);

// The figures of an arena of the last snapshot; CONTROL_ALL: the sums; CONTROL_DESTROYED: of arenas that are no more.
// NULL: it did not exist.
const struct arena_figures *snapshot_arena(unsigned id);

// The arena was just destroyed: its counts are added to those of destroyed arenas, and begin anew.
void snapshot_destroyed(unsigned id);

// All mutexes that are told begin anew.
void snapshot_reset_mutexes(void);

// Numbers of arenas in the last snapshot.
unsigned snapshot_arenas(void);

void snapshot_fork_prepare(void);
void snapshot_fork_done(void);
