// malloc on fronts of processors (magazine/processors.h): their slots are the classes, their depots and slabs those of arenas.
//
// Threads migrate, so most classes are all processors' alike: one arena has them, and what is freed elsewhere is at home everywhere. But
// objects smaller than a cache line would come to share lines, so each processor takes those from an arena of its own, and keeps what is freed
// of others' apart, in further slots, until a magazine of them goes home:
//
//   slot      1 … 4           5 … 45            HOMEWARD + 1 … 4
//   objects   of its arena    of the first      of other processors' arenas, never given out here
//
// The kind of a slot (processor_kinds) is the page map's word of its objects; 0 for the last, which take what no other does.
// Chosen by the option front:cpu; docs/decisions/0016-cpu-fronts.md.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>

#include "heap/arena.h"
#include "magazine/processors.h"

enum {
	HOMEWARD = CLASSES,
	CPU_SLOTS = HOMEWARD + LINE_CLASSES,
};

// The page map's word, class 0, of the first arena; and of the first number beyond the arenas that processors have. 0 before there is any.
extern uintptr_t cpu_word HIDDEN;
extern _Atomic uintptr_t cpu_words_end HIDDEN;

// The first arena, of most classes and of what is not kept in magazines. NULL: no memory.
struct arena *cpu_front_arena(void);

// Where an object of that class and word goes on the front with these tops; 0, which is always closed: to its slab.
static inline uintptr_t cpu_slot(void ***tops, uintptr_t class, uintptr_t word)
{
	if (LIKELY(processor_kinds(tops)[class] == (uint16_t)word))
		return class;
	return class < LINE_CLASSES && word < atomic_load_explicit(&cpu_words_end, memory_order_relaxed) ? HOMEWARD + class : 0;
}

// NULL, false: no front, no memory for magazines, or an object of an arena that no processor has; the slabs have to serve. May call the system.
void *cpu_front_alloc(unsigned class);
void *cpu_front_take(unsigned class); // only what is loaded
bool cpu_front_free(uintptr_t word, void *object);

// Gives the depots and slabs what was not used since the last time but one, at most twice a second; or everything. True: there may
// be more to give the next time.
bool cpu_fronts_tidy(uint64_t now_ms);
void cpu_fronts_flush(void);

// Puts all rounds back into slabs, where misuse is noticed.
void cpu_fronts_drain(void);

// Adds the rounds that the fronts hold, by class; and their bytes by arena, of slabs and of page runs. Exact while nobody allocates.
void cpu_fronts_count(size_t rounds[CLASSES]);
void cpu_fronts_cached(size_t bytes[ARENAS_MOST][2]);
