// Page runs of one arena: allocated from chunks, freed dirty, purged in time, in proportion and at new peaks.
//
// A run is a segment of a vmem arena of pages. A freed run is dirty: the program's bytes are in it and it is resident.
// Dirty runs are handed out first (2011). They go back to the kernel by three rules:
//   in time        pages that became dirty are given up along a falling line within dirty_decay_ms;
//   in proportion  while dirty pages exceed a quarter of the active ones plus a floor (2011, "proportional to total
//                  memory"), no fresh page is taken into use without a dirty one being given back, but for a MiB;
//   at a new peak  as what is resident comes to be a 32nd more than it ever was, and more than a 32nd and 512 KiB of it are dirty,
//                  as many dirty bytes go back as it grew by: a fourth of it at once, of the rest 64 KiB a millisecond at most (docs/decisions/0064).
// Huge pages: pages/huge.h.
//
// Purging is done by whoever comes by, with no lock held across the system call.
//
// Chunks come from the heap region, or from the hooks of the program (pages/extents.h). What comes from hooks is purged by
// them, and nothing of it is known to be zero.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pages/extents.h"
#include "util/bits.h"
#include "vmem/vmem.h"

enum { DECAY_STEPS = 16, DECAY_BY_OPTION = -2 };

enum density { DENSITY_UNKNOWN, SPARSE, DENSE };

// At chunks that begin with an object (docs/decisions/0005): how many there were, the last that was left to small pages, to be looked at, and
// whether the one before it turned out to be resident.
struct looks {
	_Atomic uint32_t chunks;
	_Atomic uint8_t density;
	_Atomic uintptr_t at;
};

struct pages {
	// Atomic, for statistics: passes that gave something back, system calls for it, and bytes.
	_Atomic uint64_t purges, purge_calls, purged_bytes;
	struct extents extents;
	_Atomic size_t kept_bytes; // of freed runs that whoever allocated them keeps at hand: allocated in `runs`, counted as dirty
	_Atomic size_t owed_bytes; // fresh ones taken into use for which no dirty ones were given back yet
	_Atomic size_t most_resident; // active and dirty bytes at most, but for times at which the rule of proportion was exceeded
	_Atomic size_t idle_bytes; // that it grew by at new peaks, for which no dirty ones were given back yet
	_Atomic uint64_t made_up_at; // ms: by when what was given back for new peaks may have been, at so much a millisecond
	struct looks objects, large_objects; // smaller than a chunk; HUGE_OBJECT and more in a small heap
	_Atomic size_t begun_with; // bytes that were active when the last chunk was begun
	_Atomic bool has_huge; // some chunk was asked for as huge pages
	_Atomic bool decaying; // a flag: somebody is in pages_decay
	_Atomic size_t refused_bytes; // dirty ones of which the system took none (mlockall); fewer once fewer are dirty
	_Atomic ssize_t dirty_decay_ms; // −1: never, 0: at once, DECAY_BY_OPTION: what the option says
	_Atomic uint64_t step_at; // when the last step was taken, ms; written by the holder of the flag
	// Of the holder of the flag.
	size_t dirty_before;             // dirty bytes after the last step
	size_t active_before;            // active bytes at it
	struct vmem runs; // with its own lock
	size_t backlog[DECAY_STEPS];     // bytes that became dirty, by step, newest first
};

// In zero memory, of which small processes leave most untouched.
void pages_init(struct pages *pages, const char *name);

// A run of `size` bytes at a multiple of `align` (0: a page). 0: no memory. `*zeroed`: its pages are the kernel's zeroes; NULL: nobody wants
// to know, so what is read of it was written before.
uintptr_t pages_alloc(struct pages *pages, size_t size, size_t align, bool *zeroed);
// The same for slabs, whose buffers will all be written to: in a large heap the chunk that it begins is to be huge pages. Of an object
// smaller than a chunk a program may touch a page only, as with buffers of connections: earlier chunks tell (docs/decisions/0005).
uintptr_t pages_alloc_dense(struct pages *pages, size_t size, size_t align, bool *zeroed);
// The same for a slab of `size` bytes or 2^*lg_times as many; it is less where there is such a place already; `*lg_times`: what it became.
uintptr_t pages_alloc_slab(struct pages *pages, size_t size, unsigned *lg_times);
// And for an object that has outgrown its place, of which the pages of `moved` bytes will be moved there: it was filled, and so will be the rest.
uintptr_t pages_alloc_grown(struct pages *pages, size_t size, size_t moved, bool *zeroed);
void pages_free(struct pages *pages, uintptr_t start, size_t size);

// Whether a run of that size would take pages that nobody used before, or that went back to the system.
bool pages_are_fresh(struct pages *pages, size_t size);

// Whether a run of that size has a place without another chunk; an estimate.
bool pages_have_room(struct pages *pages, size_t size);

// In place; false: not possible. `*zeroed`: what was added is zero.
bool pages_extend(struct pages *pages, uintptr_t start, size_t size, size_t new_size, bool *zeroed);
bool pages_shrink(struct pages *pages, uintptr_t start, size_t size, size_t new_size);

// A run whose pages were moved away: zero pages, to be freed as clean ones.
void pages_free_clean(struct pages *pages, uintptr_t start, size_t size);

// Gives pages inside an allocated run back: they stay the caller's, zero and not resident. False: the system would not.
bool pages_clear(struct pages *pages, uintptr_t start, size_t size);

// Likewise those that nobody uses: what is refused will be among the dirty.
bool pages_give(struct pages *pages, uintptr_t start, size_t size);

// Purges until at most `most` bytes are dirty; true when anything was given back.
bool pages_purge(struct pages *pages, size_t most);

// So many bytes became resident elsewhere: gives back as many dirty ones, where there are; in a heap with huge pages when they add up, and large runs.
void pages_make_up(struct pages *pages, size_t bytes);

// The dirty bytes that the rule of proportion allows.
size_t pages_allowed_dirty(const struct pages *pages);

// Whether a step of decay is due: without a write, for those who come by often. Takes the steps that are.
bool pages_decay_is_due(const struct pages *pages, uint64_t now_ms);
void pages_decay(struct pages *pages, uint64_t now_ms);

// Gives all spans back that have no run in use, dirty or not, and begins anew: hooks and decay are those of a new arena. What cannot go back is
// the heir's (NULL: nobody's).
void pages_reset(struct pages *pages, struct pages *heir);

// How long dirty pages stay, by the option or as it was set for these pages.
ssize_t pages_decay_ms(const struct pages *pages);

static inline size_t pages_dirty_bytes(const struct pages *pages)
{
	return __atomic_load_n(&pages->runs.dirty_bytes, __ATOMIC_RELAXED) +
	       atomic_load_explicit(&pages->kept_bytes, memory_order_relaxed);
}

// What could be given back: nothing where dirty pages stay, nor of what the system refused, until more becomes dirty.
static inline size_t pages_garbage(const struct pages *pages)
{
	size_t dirty = pages_dirty_bytes(pages);

	return dirty > atomic_load_explicit(&pages->refused_bytes, memory_order_relaxed) && pages_decay_ms(pages) >= 0 ? dirty : 0;
}

// Bytes in allocated runs; an estimate while others run, who may add a chunk between two of the figures: never less than none.
static inline size_t pages_active_bytes(const struct pages *pages)
{
	size_t total = __atomic_load_n(&pages->runs.total_bytes, __ATOMIC_RELAXED);
	size_t unused = __atomic_load_n(&pages->runs.bytes[VMEM_DIRTY], __ATOMIC_RELAXED) +
			__atomic_load_n(&pages->runs.bytes[VMEM_CLEAN], __ATOMIC_RELAXED) +
			atomic_load_explicit(&pages->kept_bytes, memory_order_relaxed);

	return total - min_size(total, unused);
}
