// Snapshot: the figures of all arenas at one moment, taken when the epoch is written.
//
// Nothing is counted for it on the fast path. One lock at a time is held, each for a few loads: nobody is stopped. What is
// read meanwhile may mix two snapshots; each figure by itself is whole. allocated ≤ active ≤ resident always.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/figures.h"

struct totals {
	size_t allocated, active, metadata, metadata_thp, resident, mapped, retained, background_threads;
	uint64_t background_runs, background_interval_ns;
	struct mutex_figures ctl, prof; // mutexes of controls; of the profiler
};

// Takes a snapshot and counts it; returns the count.
uint64_t snapshot_take(void);

// The count; the first snapshot is taken when there is none.
uint64_t snapshot_epoch(void);

// The sums of the last snapshot.
const struct totals *snapshot_totals(void);

// The figures of an arena of the last snapshot; CONTROL_ALL: the sums; CONTROL_DESTROYED: of arenas that are no more.
// NULL: it did not exist.
const struct arena_figures *snapshot_arena(unsigned id);

// The arena is destroyed, and its number not yet another's: its counts are added to those of destroyed arenas, and begin anew.
void snapshot_destroyed(unsigned id);

// All mutexes that are told begin anew.
void snapshot_reset_mutexes(void);

// Numbers of arenas in the last snapshot.
unsigned snapshot_arenas(void);

void snapshot_fork_prepare(void);
void snapshot_fork_done(void);
