// The engine of vmem: sets of integers, allocated in segments in constant time whatever their fragmentation (2001, §4).
//
// An arena is a list of spans; a span is cut into segments; every segment has a boundary tag of its own, kept apart from
// what it describes, so that an arena can manage anything: pages, chunks, ports, file offsets.
//
//   segment list   SPAN [ALLOC][FREE ][ALLOC] SPAN [FREE        ] …       in address order within each span
//   free list      n: segments of exactly n quanta (n ≤ 32), then one list for each power of two
//   hash           allocated segments by address: vmem_segment_free finds its tag, and a wrong address or size is noticed
//
// Free segments come in two kinds. CLEAN ones are as their source gave them (for pages: zero and not resident). DIRTY
// ones hold something used, as many bytes as their tag says; they are preferred, so that what is resident is used again
// before anything else (2011). Neighbours of different kinds coalesce unless both are large (VMEM_APART quanta; of pages 1 MiB); the result
// is dirty by the sum (docs/decisions/0004).
// An arena of anything but pages uses the clean kind alone.
//
// Invariants, checked by vmem_check(): 1. the segments of a span are adjacent and sum to its size; 2. two neighbours of a
// span are never both free, but for large ones of different kinds; 3. a segment is on exactly one free list or in the hash; 4. size sums agree.
//
// A cursor is a place in the walk through all segments that stays good while they come and go: the rotor of next fit, the
// place of a walk.
//
// Boundary tags come from base, those that an operation may need before it begins: freeing needs none. Nothing here calls
// the operating system or another arena with the lock held.
// What programs see of it (names, flags, waiting) is in vmem/resource.h; the heap uses the engine as it is.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/mutex.h"

enum vmem_kind { VMEM_CLEAN, VMEM_DIRTY, VMEM_KINDS };
enum vmem_policy { VMEM_INSTANTFIT, VMEM_BESTFIT, VMEM_FIRSTFIT, VMEM_NEXTFIT };
enum { VMEM_APART = 256 };
enum { VMEM_EXACT_LISTS = 32, VMEM_LISTS = VMEM_EXACT_LISTS + 59, VMEM_FIRST_BUCKETS = 16 };

struct vmem;
struct vmem_segment;

// Imports `size` (a multiple of the arena's import unit) from the source; 0 when there is none. `flags` are those of the
// allocation. Called without locks.
typedef uintptr_t vmem_import(void *source, size_t size, int flags);
typedef void vmem_release(void *source, uintptr_t start, size_t size);

struct vmem_list {
	struct vmem_segment *first;
};

struct vmem_cursor {
	struct vmem_cursor *next;
	const void *owner; // what tells threads apart; NULL: the arena itself
	struct vmem_segment *at; // near the place, in its span, or that span's marker; NULL: behind the last span
	uintptr_t address;
};

struct vmem {
	// Constant after vmem_init.
	const char *name;
	unsigned lg_quantum;
	enum vmem_policy policy; // of vmem_segment_alloc
	size_t import_unit, import_align;
	vmem_import *import;
	vmem_release *release;
	void *source;
	size_t apart; // bytes of a large segment

	struct mutex lock;
	// Under lock.
	struct vmem_segment *spans, *last_span; // list of span markers, as they were added or imported, or by address
	struct vmem_segment *spare; // boundary tags in stock
	unsigned spares;
	struct vmem_segment **buckets;
	unsigned lg_buckets;
	size_t segments_allocated;
	size_t total_bytes;   // of all spans
	size_t bytes[VMEM_KINDS]; // free, by kind
	size_t dirty_bytes;       // used bytes in free segments; an estimate once dirty segments were split
	struct vmem_cursor *cursors; // none for most arenas
	struct vmem_cursor rotor;    // of next fit, one of the cursors once it is used
	bool rotor_used;
	uint64_t lists_used[VMEM_KINDS][2]; // bit n: free list n is not empty
	struct vmem_segment *first_buckets[VMEM_FIRST_BUCKETS];
	// Counts.
	uint64_t allocs, frees, imports, releases;
	uint64_t lookups, searches; // tags passed over in hash chains and in free lists
	uint64_t populate_fails;    // there was no memory for tags
	size_t imported_bytes, span_count;
	// Last, for of most arenas only the beginning is used: short segments, and clean ones before dirty ones.
	struct vmem_list lists[VMEM_KINDS][VMEM_LISTS];
};

// What an allocation may ask for beyond its size; zero means no constraint (2001, Figure 4.3).
struct vmem_constraint {
	size_t align, phase, nocross;
	uintptr_t least, most; // the segment lies in [least, most)
};

// A segment as it was allocated.
struct vmem_piece {
	uintptr_t start; // 0: none
	enum vmem_kind kind;
	size_t dirty;    // of its bytes, an estimate
};

// `lg_quantum`: unit of currency. `rank`: place of the arena's lock in the order of locks. `name` must outlive the arena.
void vmem_init(struct vmem *arena, const char *name, unsigned lg_quantum, enum vmem_policy policy, enum mutex_rank rank);
// The same in memory that is zero, which it leaves untouched but for its first bytes.
void vmem_begin(struct vmem *arena, const char *name, unsigned lg_quantum, enum vmem_policy policy, enum mutex_rank rank);

// `unit`: what imports are multiples of; `align`: what their addresses are sure to be multiples of, the quantum at least. `release`
// NULL: what was imported stays.
void vmem_import_from(struct vmem *arena, void *source, vmem_import *import, vmem_release *release, size_t unit, size_t align);

// Gives all tags and the hash back to base and releases imported spans that are free. What is still allocated is lost track
// of. Nobody else uses the arena.
void vmem_fini(struct vmem *arena);

// Adds the span [start, start + size), behind the others or where its address belongs: next fit and walks go by that order. False: no memory for its tags.
bool vmem_span_add(struct vmem *arena, uintptr_t start, size_t size);
bool vmem_span_add_in_order(struct vmem *arena, uintptr_t start, size_t size);

// Allocates `size` (rounded up to quanta), importing if there is too little. Dirty segments first; kind CLEAN: nothing of it
// was used before.
struct vmem_piece vmem_segment_alloc(struct vmem *arena, size_t size);
// The same for 2^*lg_times as much, or, if there are only smaller segments, for as many times less; `*lg_times`: what it became.
struct vmem_piece vmem_segment_alloc_times(struct vmem *arena, size_t size, unsigned *lg_times);

// The same at a multiple of `align`, a power of two. As there, what is found in constant time first, then an import, and only where
// there is none a search through all that is free.
struct vmem_piece vmem_segment_alloc_aligned(struct vmem *arena, size_t size, size_t align);

// How many bytes of what it would return were used before, by the estimate; 0: it would import.
size_t vmem_expect_dirty(struct vmem *arena, size_t size);

// Whether a request of that size would find a place without an import. An estimate while others run.
bool vmem_has_room(struct vmem *arena, size_t size);

// `constraint` may be NULL. `flags` go to import, which is asked only when the arena has no place.
struct vmem_piece vmem_segment_xalloc(struct vmem *arena, size_t size, const struct vmem_constraint *constraint,
				      enum vmem_policy policy, int flags);

// False, and nothing is done, when [start, start + size) is not an allocated segment. A whole imported span that is clean
// goes back to its source.
bool vmem_segment_free(struct vmem *arena, uintptr_t start, size_t size, enum vmem_kind kind);

// False, and nothing is done, when it is not all that is allocated of an imported span. Else that goes back to its source, whatever the kind of its segments.
bool vmem_segment_free_last(struct vmem *arena, uintptr_t start, size_t size);

// The size of the allocated segment that begins there; 0: there is none.
size_t vmem_segment_size(struct vmem *arena, uintptr_t start);

// In an arena of clean segments alone: how much less than its size was asked for of the allocated segment that begins there; and the size that was. 0: there is none.
void vmem_segment_set_unused(struct vmem *arena, uintptr_t start, size_t bytes);
size_t vmem_segment_asked(struct vmem *arena, uintptr_t start);

// Whether [start, start + size) lies within one span, or shares an integer with any. Both look at every span.
bool vmem_covers(struct vmem *arena, uintptr_t start, size_t size);
bool vmem_overlaps(struct vmem *arena, uintptr_t start, size_t size);

// The largest free segment.
size_t vmem_largest(struct vmem *arena);

// Grows an allocated segment at its end out of the free segments behind it. Returns what came, DIRTY if any of it is.
struct vmem_piece vmem_extend(struct vmem *arena, uintptr_t start, size_t size, size_t new_size);

// Cuts the end off an allocated segment; the tail becomes free and dirty. False: no memory for its tag.
bool vmem_shrink(struct vmem *arena, uintptr_t start, size_t size, size_t new_size);

// Makes two allocated segments of one. False: none of more than `first` bytes begins there, or no memory for the tag.
bool vmem_cut(struct vmem *arena, uintptr_t start, size_t first);

// Says that the free segment behind an allocated one is dirty, at most `most` bytes of it.
void vmem_soil_next(struct vmem *arena, uintptr_t start, size_t most);

// Takes one of the largest dirty free segments, or about `most` bytes of its end, as an allocated one, to be freed as clean
// after it was purged. start 0: there is none.
struct vmem_piece vmem_take_dirty(struct vmem *arena, size_t most, size_t *size);

// The span around an address, 0: there is none. It may look at every span, but for the start of an allocated segment at no more of them than there are segments
// before that in its span.
uintptr_t vmem_span_around(struct vmem *arena, uintptr_t address, size_t *size);

// Returns imported spans without allocated segments to their source, whatever their kind.
void vmem_return_spans(struct vmem *arena);

// Walks: begin, next until it is false, end. Other operations may come between.
enum vmem_segment_type { VMEM_SEGMENT_SPAN, VMEM_SEGMENT_FREE, VMEM_SEGMENT_ALLOC };
struct vmem_range {
	uintptr_t start;
	size_t size;
	size_t unused; // of an allocated one (vmem_segment_set_unused)
	enum vmem_segment_type type;
};
void vmem_walk_begin(struct vmem *arena, struct vmem_cursor *cursor);
bool vmem_walk_next(struct vmem *arena, struct vmem_cursor *cursor, struct vmem_range *range);
void vmem_walk_end(struct vmem *arena, struct vmem_cursor *cursor);
// In the child of a fork: the walks of other threads are over. Called with the lock held.
void vmem_cursors_forget_others(struct vmem *arena);

// Checks all invariants; for debug builds and tests. Aborts when one is broken.
void vmem_check(struct vmem *arena);
