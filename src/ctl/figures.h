// Figures: what the modules of an arena count, by jemalloc's names.
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
	size_t free_buffers, slab_bytes; // no names of jemalloc's: of all slabs
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

// Those of an arena, one of so many that are; `cached`: bytes in the magazines of its fronts, of small and of large objects. Takes its locks,
// one at a time.
struct arena;
void figures_take(struct arena *arena, unsigned arenas, const size_t cached[2], struct arena_figures *to);

// Adds those of the slabs of a class of an arena, samples among them, which lie in slabs of their own; one that is a page run counts as
// such a slab, which is full.
void figures_add_slabs(struct bin_figures *to, struct arena *arena, unsigned class);

// Adds an arena's to a sum.
void figures_add(struct arena_figures *to, const struct arena_figures *from);

// What is counted begins anew: of the mutexes; all of an arena that nobody uses.
void figures_reset_mutexes(struct arena *arena);
void figures_forget(struct arena *arena);
