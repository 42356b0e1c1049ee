// Magazine: an array of object pointers between two guards, so that one word says how full it is (2001, §3.1).
//
//   guard      round[0]   round[1]             round[capacity − 1]   after
//   [ NULL   ][ r1       ][ r2       ][ empty ][ empty             ][ FULL ]
//                                     ▲
//                                     top: the front's one word for this size class
//
//   allocate:  p = top[−1];  NULL: the magazine is empty, a miss;  else top−−
//   free:      *top is what an empty slot of this class holds;  anything else: a miss;  else *top++ = p
//
// An empty slot holds the page map's word of the objects that belong in it. So the one comparison that free makes tells
// a full magazine, another class and another arena from the common case (docs/decisions/0002).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

struct magazine {
	struct magazine *next; // in a depot's list
	uint16_t capacity;     // constant, but for magazine_change
	uint16_t size;         // constant: which of the magazine sizes
	uint32_t rounds;       // while not loaded in a front
	void *guard;           // NULL, always
	void *round[];         // capacity slots, then FULL
};

#define MAGAZINE_FULL ((void *)UINTPTR_MAX)
#define MAGAZINE_GAP ((void *)(UINTPTR_MAX - 1)) // where another thread took a round; not NULL, which a sized free puts there (heap/sleepers.h)

// Whether a slot below the top holds a round: no guard, no gap, no NULL that was freed by its size.
static inline bool magazine_is_round(const void *slot)
{
	return (intptr_t)slot > 0;
}

// Magazine sizes: 4, 12, 28, 60, 124, 252, 508, 1020, 2044, 4092 rounds, so that a magazine fills 64 bytes to 32 KiB. The four largest are
// for caches at whose depot threads meet (cache/update.h).
enum { MAGAZINE_SIZES = 10, MAGAZINE_OVERHEAD = 4 };

static inline unsigned magazine_slots(unsigned size)
{
	return (64u << size) / 8 - MAGAZINE_OVERHEAD;
}

// Figure 3.1b: what a miss does with a front's two magazines, the rounds of both counted; NULL: there is none. To allocate it takes
// what has rounds, to free what has room, and visits the depot when neither does.
enum reload { RELOAD_LOADED, RELOAD_PREVIOUS, RELOAD_DEPOT };

static inline enum reload magazine_with_rounds(const struct magazine *loaded, const struct magazine *previous)
{
	if (loaded != NULL && loaded->rounds > 0)
		return RELOAD_LOADED;
	return previous != NULL && previous->rounds > 0 ? RELOAD_PREVIOUS : RELOAD_DEPOT;
}

// An exchange is worth it only for an empty one (libumem's form of the figure).
static inline enum reload magazine_with_room(const struct magazine *loaded, const struct magazine *previous)
{
	if (loaded != NULL && loaded->rounds < loaded->capacity)
		return RELOAD_LOADED;
	return previous != NULL && previous->rounds == 0 ? RELOAD_PREVIOUS : RELOAD_DEPOT;
}

// What fronts of threads, of processors and of object caches do alike.
enum {
	TIDY_MS = 500,            // what a front did not use for this long goes to the depot
	MISSES_A_LOOK = 16,       // at the clock
	FIRST_BATCH_BYTES = 2048, // of the first fill
};

// Once, before any magazine.
void magazines_init(void);

// An empty magazine for 1 to 4092 rounds whose slots hold `word`. NULL: no memory. Takes locks, calls the operating system.
// After it got none the next requests get none unasked.
struct magazine *magazine_create(unsigned capacity, uintptr_t word);

// The next one asks again: for who cannot do without.
void magazines_ask(void);
void magazine_destroy(struct magazine *magazine);

// Of the magazine itself, with its guards.
static inline size_t magazine_bytes(const struct magazine *magazine)
{
	return offsetof(struct magazine, round) + ((size_t)magazine->capacity + 1) * sizeof(void *);
}

// Gives a magazine without rounds another capacity and word. False: it has not that many slots.
bool magazine_change(struct magazine *magazine, unsigned capacity, uintptr_t word);

// Makes all slots empty ones.
void magazine_clear(struct magazine *magazine, uintptr_t word);

// How many of the lowest `rounds` slots were taken; and see below.
uint32_t magazine_gap(const struct magazine *magazine, uint32_t rounds);
void magazine_close_gap_slow(struct magazine *magazine);

// Makes the slots beyond its rounds empty ones.
static inline void magazine_clear_rest(struct magazine *magazine, uintptr_t word)
{
	for (uint32_t i = magazine->rounds; i < magazine->capacity; i++)
		magazine->round[i] = (void *)word;
}

// Moves its rounds down over the gap that taking from the bottom up has left. What lies above them afterwards is undefined.
static inline void magazine_close_gap(struct magazine *magazine)
{
	if (magazine->rounds > 0 && UNLIKELY(magazine->round[0] == MAGAZINE_GAP))
		magazine_close_gap_slow(magazine);
}

// Whether a bin is one of magazines, and where these bins and their pages lie, for readers in other processes (include/vmag/format.h).
struct bin;
bool magazines_own(const struct bin *bin);
const struct bin *magazines_bins_at(void);
const void *magazines_pages_at(void);

// The memory of the magazines: bytes in use by them, and giving back what is not.
size_t magazines_bytes(void);
bool magazines_begin_walk(void); // over their slabs, as bin_begin_walk (slab/holes.h)
void magazines_trim(bool everything, uint64_t now_ms);
size_t magazines_dirty_bytes(void);
size_t magazines_garbage(void); // what of these could be given back (pages/runs.h)

// Locks for fork, in steps as their ranks demand.
void magazines_fork_lock_bins(void);
void magazines_fork_lock_pages(void);
void magazines_fork_lock_extents(void);
void magazines_fork_done(void);
