// Depot: the stock of full and empty magazines of one class of one arena (2001, §3.1), and its working set (§3.7).
//
// "Full" means: has rounds; sorting out what does not belong may have taken some.
// The working set of an interval is what the list's length varied by; what lay below its minimum was not needed.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "magazine/magazine.h"
#include "os/mutex.h"
#include "util/bits.h"

struct magazine_list {
	struct magazine *first;
	uint32_t length;
	uint32_t least; // smallest length since the last interval began
};

struct depot {
	struct mutex lock __attribute__((aligned(CACHE_LINE)));
	// Under lock; what an exchange writes lies in the lock's line, so that it holds the lock for as short as can be.
	struct magazine_list full, empty;
	size_t rounds; // in all full magazines
	uint64_t takes, puts; // of magazines with rounds
	uint64_t contentions; // times that somebody else had the lock (2001, §3.4)
};

// Of one that is all zero, of which no page is touched.
void depot_init(struct depot *depot);

// In what follows, `told`: where the depot's rounds are told to readers without the lock, always the same place; NULL: nowhere.

// Exchanges an empty magazine (or NULL) for a full one. NULL: there is none, and the empty one was not taken.
struct magazine *depot_take_full(struct depot *depot, struct magazine *empty, _Atomic size_t *told);

// Leaves a full magazine and gets an empty one, or NULL when there is none.
struct magazine *depot_take_empty(struct depot *depot, struct magazine *full, _Atomic size_t *told);

// Leaves magazines without taking any.
void depot_put(struct depot *depot, struct magazine *magazine, _Atomic size_t *told);

// Leaves a magazine, however many rounds it has, where there is none with rounds. False: there is one.
bool depot_put_first(struct depot *depot, struct magazine *magazine, _Atomic size_t *told);

// Takes out all magazines, or only those that the last interval did not need; chained by `next`, full ones and empty ones
// alike, to be drained and destroyed. Begins a new interval.
struct magazine *depot_reap(struct depot *depot, bool everything, _Atomic size_t *told);
