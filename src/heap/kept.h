// Kept runs: the last freed page run of each size from 80 KiB to 1 MiB, at hand for the next request of that size; and those of sampled
// objects that are page runs, by their pages to 64 KiB, behind one another, at hand for the next ones (docs/decisions/0010-sampling.md).
//
// A program that takes and gives back one large buffer again and again would have its run cut and joined each time. Instead
// an arena keeps one run of each size, while they are few beside what it has in use. To the vmem arena such a run is
// allocated; in all figures it is dirty (pages/runs.h, kept_bytes); the page map does not know it, so that freeing it once more is noticed.
// What was not wanted for a step of decay is freed to the pages. Explicit arenas and those with hooks keep none.
// No lock: a slot is exchanged, with all that is behind it, and who gets a run out of it owns it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/arena.h"
#include "os/pages.h"

// Whether an arena keeps runs at all. Whether a run of that many bytes, a class size, would be kept; and keeps it, which is in the page map no more.
bool kept_may(const struct arena *arena);
bool kept_wants(const struct arena *arena, size_t bytes);
void kept_put(struct arena *arena, struct run *run);
void kept_put_class(struct arena *arena, struct run *run, unsigned class); // of a class beyond those of magazines

// A kept run for that many bytes, a class size, to be entered in the page map; NULL: there is none.
struct run *kept_take(struct arena *arena, size_t bytes);

static inline void kept_count(struct arena *arena, size_t bytes, bool more)
{
	bytes = round_up(bytes, os_page_size());
	atomic_fetch_add_explicit(&arena->pages.kept_bytes, more ? bytes : -bytes, memory_order_relaxed);
}

static inline struct run *kept_take_from(struct arena *arena, struct run *_Atomic *slot)
{
	struct run *run = atomic_load_explicit(slot, memory_order_relaxed);

	if (run != NULL)
		run = atomic_exchange_explicit(slot, NULL, memory_order_acquire);
	if (run != NULL)
		kept_count(arena, run->bytes, false);
	return run;
}

// The same of a class beyond those of magazines, up to KEPT_MOST.
static inline struct run *kept_take_class(struct arena *arena, unsigned class)
{
	return kept_take_from(arena, &arena->kept[class - CLASSES]);
}

// Frees those that were not put since the last call, or all, to the pages; true when there were any.
bool kept_give(struct arena *arena, bool all);

// Counts them anew, in a child of fork.
void kept_fork_child(struct arena *arena);
