// malloc on fronts of processors (magazine/processors.h): their slots are the classes, their depots and slabs those of one arena.
// Chosen by the option front:cpu; docs/decisions/0016-cpu-fronts.md.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/arena.h"
#include "magazine/processors.h"

// The page map's word, class 0, of the arena whose objects the fronts hold; 0 before there is one.
extern uintptr_t cpu_word HIDDEN;

// The arena of all processors, for what is not kept in magazines. NULL: no memory.
struct arena *cpu_front_arena(void);

// NULL, false: no front, no memory for magazines, or another arena's object; the slabs have to serve. May call the system.
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
