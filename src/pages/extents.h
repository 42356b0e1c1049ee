// Extents: chunks that an arena gets from hooks of the program in place of the heap region (jemalloc's extent hooks).
//
// An extent is what one call of the alloc hook gave, whole chunks; it becomes one span of the arena's runs, and all of it
// is given back to the dalloc hook once it is unused. When that refuses, or there is none, the extent is kept:
//
//   alloc ─► span in use ─► dalloc                          gone
//                  ▲        refused: decommit, else purge ─► kept ─► destroy, when the arena is destroyed
//                  └── commit ◄── split off, if it is larger ◄──┘    (neighbours that are kept: merge)
//
// Without hooks there is but one refusal: a chunk amid a mapping is not unmapped where the process has all mappings that it may have.
//
// What cannot be used, as it lies where nothing can or is not committed, goes to dalloc at once, and to destroy if that refuses.
// While a span is in use, its unused pages go through purge_forced, else purge_lazy. Hooks are called with no lock held, and may allocate: the heap is told
// before and after.
//
// Memory of hooks may be anywhere that the page map can be made to cover (page_map_cover); elsewhere the allocation fails,
// with one line that says so.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/mutex.h"

struct extent_hooks_s; // include/jemalloc/jemalloc.h
struct extent;

struct extents {
	// Atomic.
	struct extent_hooks_s *_Atomic hooks; // NULL: the default ones
	_Atomic bool had_hooks;               // other than the default ones: nothing is known to be zero
	// Constant after the arena was made.
	unsigned arena;

	struct mutex lock;
	// Under lock.
	struct extent *kept;
	size_t kept_bytes;
};

// Of one that is all zero.
void extents_init(struct extents *extents);

// Called before those of the program, and, if it says so, after them. NULL: there are none but those that come with the library.
extern bool (*_Atomic extents_around_hooks)(bool before);

static inline bool extents_are_ours(const struct extents *extents)
{
	return atomic_load_explicit(&extents->hooks, memory_order_acquire) == NULL;
}

static inline bool extents_are_zero(const struct extents *extents)
{
	return !atomic_load_explicit(&extents->had_hooks, memory_order_relaxed);
}

static inline bool extents_are_kept(const struct extents *extents)
{
	return __atomic_load_n(&extents->kept_bytes, __ATOMIC_RELAXED) != 0;
}

// The default ones, on chunks of the heap region; sources have those of them that they need no others for.
extern struct extent_hooks_s extents_default;

// The hooks in use, the default ones included; setting returns the ones before. Extents in use stay, and go to the new hooks.
struct extent_hooks_s *extents_hooks(const struct extents *extents);
struct extent_hooks_s *extents_set_hooks(struct extents *extents, struct extent_hooks_s *hooks);

// Imports and releases spans of whole chunks. 0: the hooks have none, or it lies where the page map cannot be.
uintptr_t extents_import(struct extents *extents, size_t size);
void extents_release(struct extents *extents, uintptr_t start, size_t size);

// Purges part of a span in use; false: the hooks refused.
bool extents_purge(struct extents *extents, uintptr_t span, size_t span_bytes, size_t offset, size_t size);

// Gives up what is kept, for good, and returns to the default hooks. What they cannot take back is the heir's (NULL: nobody's).
void extents_destroy(struct extents *extents, struct extents *heir);
