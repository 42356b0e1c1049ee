// Sleepers: what the magazines of threads hold that neither allocate nor free for a while is taken out by the background thread.
//
// A thread's hit is a handful of plain loads and stores, and may be held up between any two of them, by the scheduler or a signal
// handler that sleeps, for any time. So nothing is taken on the belief that the thread stands still. Three steps, a fence (os/fence.h)
// after the first and the second; the lock of the fronts is held, and the thread's slow path waits (front_enter):
//
//   close   words.top of each class is exchanged for the closed magazine's: a hit that begins from now on misses
//   take    of each class that is still closed all rounds but the uppermost are exchanged for a gap, from the bottom up
//   settle  a class that is still closed is settled: the thread reads no slot below the uppermost round before it has written its
//           word, which it did not do before the fence, and after the fence it finds the gap there, which is a miss. Of any other class
//           each slot of the gap that is still there is exchanged for the round again
//
//   before  [ NULL ][ r1   ][ r2   ][ r3 ][ empty ]      a hit that is under way: of malloc, uses r3 (top[-1]) and the round
//   after   [ NULL ][ gap  ][ gap  ][ r3 ][ empty ]      ahead; of free, writes to the empty slot; both may open the word again
//
// Of outbound magazines, to which a hit only adds, all below the top is taken by the last two steps in the same way; of them none is put
// back. The previous magazines are the slow path's alone.
//
// The thread closes the gap when it next takes the magazine from its words. The argument in full: docs/decisions/0035-sleepers.md.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/front.h"

enum { LOOT_ROUNDS = 4096 };

// What was taken from one front.
struct loot {
	struct arena *arena, *common;
	void **top[CLASSES], **outbound_top[CLASSES]; // as they were; NULL: not taken
	struct magazine *previous[CLASSES];
	size_t first[CLASSES], count[CLASSES]; // of the rounds below, those of loaded magazines by class, then
	size_t first_outbound[CLASSES + 1];    // those of outbound ones
	struct run *own[KEPT_SIZES]; // runs that were at hand
	size_t rounds;
	void *round[LOOT_ROUNDS];
};

// One step for all threads but the caller. True: something may be taken soon. Takes the lock of the fronts, and fences under it.
bool sleepers_step(uint64_t now_ms);

// The steps for one front of another thread; between them, and after the last, a fence. False: the thread is in its slow path, or
// its door is closed.
void sleeper_close(struct front *front, struct loot *loot);
bool sleeper_take(struct front *front, struct loot *loot);
void sleeper_settle(struct front *front, struct loot *loot, bool fenced);

// All three. False: nothing was taken.
bool sleeper_visit(struct front *front, struct loot *loot);

// Brings what was taken to its slabs and depots. With no lock held.
void loot_give(struct loot *loot);
