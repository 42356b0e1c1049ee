// Front of a processor: the loaded and previous magazines that all threads share which run on it (2001, §3.1).
//
// Objects are taken and put by restartable sequences (os/rseq.h) on the processor's words, without a lock. A miss takes the
// front's lock for a few instructions. Threads migrate, so the lock alone does not tell which processor one runs on:
//
//   loaded → hand    rseq_exchange(top, closed): it happens on that processor or not at all. Afterwards the class is closed, no
//                    sequence can commit to it, and the magazine is in the hand of one thread
//   hand → loaded    while there is none: a plain store under the lock, from anywhere
//
// What may take long (the depot, slabs, the system) is done with the magazine in hand and no lock; when it comes back
// and somebody else was faster, it becomes the previous one or goes to the depot.
//
// Magazines of all processors are reached by stopping: the table's entries are exchanged for closed words, a fence ends
// the sequences under way, and until the fronts are started again all threads go to the slabs. So idle processors' magazines
// are given back, malloc_trim empties all of them, and a fork finds them whole.
//
// Memory is bounded by processors, not threads; a thread that ends leaves nothing behind. A front is made when a
// thread first misses on its processor. Chosen by the option front:cpu; docs/decisions/0016-cpu-fronts.md.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/arena.h"

// By number of processor: its words, or closed ones. NULL: fronts of threads serve.
extern void ****cpu_table HIDDEN;

// False: there are no restartable sequences here, or no memory. Once, before any other call.
bool cpu_fronts_init(void);

// The arena of this thread's processor, for what is not kept in magazines. NULL: no memory.
struct arena *cpu_front_arena(void);

// NULL, false: no front or no memory for magazines; the slabs have to serve. May call the system.
void *cpu_front_alloc(unsigned class);
void *cpu_front_take(unsigned class); // only what is loaded
bool cpu_front_free(uintptr_t word, void *object);

// Gives the depots and slabs what was not used since the last time but one, at most twice a second; or everything. True: there may
// be more to give the next time.
bool cpu_fronts_tidy(uint64_t now_ms);
void cpu_fronts_flush(void);

// Puts all rounds back into slabs, where misuse is noticed.
void cpu_fronts_drain(void);

// Adds the rounds that the fronts hold, by class; exact while nobody allocates.
void cpu_fronts_count(size_t rounds[CLASSES]);

void cpu_fronts_fork_prepare(void);
void cpu_fronts_fork_done(bool child);
