// Capacity: how many rounds a front's magazines have. It grows with what a class needs (2001, §3.4), as far as the fronts of an arena together hold little.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"

enum {
	CAPACITY_MOST = 252,  // rounds
	FIRST_CAPACITY = 12,  // of the first magazine of a class
	EXCHANGES_A_STEP = 8, // of loaded and previous until the next magazine is larger
};

// Whether the class's magazines are so small that it has one alone, which gives half of its rounds away where others give their previous magazine: as
// many objects as in two of half the size, and no exchanges of these. So it is until magazines may grow.
static inline bool front_has_one(const struct front *front, unsigned class)
{
	return class < SMALL_CLASSES && front->capacity[class] <= FIRST_CAPACITY;
}

// The same for fronts of processors: of magazines, at most and grown; and of their fills.
unsigned front_most_rounds(unsigned class);
unsigned front_grown_rounds(unsigned class);
unsigned front_first_batch(unsigned class);
unsigned front_next_batch(unsigned batch, unsigned capacity);

// Of the class's next magazine; 0: the class is not in use. Counted for the arena.
void front_set_capacity(struct front *front, unsigned class, size_t rounds);
void front_begin(struct front *front, unsigned class); // the class is in use from now on
void front_forget_capacities(struct front *front);

// Bytes that the magazines of the front may come to hold more than so far; and whether those of an arena's fronts do hold as much
// as they may.
void front_count_bytes(struct front *front, size_t more);
bool fronts_hold_enough(const struct arena *arena);

// Adds what its magazines may hold to its arena, whose sum was cleared.
void front_count_again(struct front *front);

// The class has come as far as the depot: its next magazine may be larger, unless its slabs have holes.
void front_grow_capacity(struct front *front, unsigned class);

// The class begins again with small magazines: those to come, and an empty one (NULL: there is none).
void front_begin_again(struct front *front, unsigned class, struct magazine *empty);

// An empty magazine as large as the next shall be, or for that many rounds where they are fewer. NULL: no memory.
struct magazine *front_new_magazine(struct front *front, unsigned class, unsigned most);

// A heap of which much is freed, and lies in magazines then, shall not be larger for that: when these take more than ever that is
// made up for with dirty pages.
void front_make_up_for_magazines(struct front *front);

// An empty one made as large; NULL: it has not that many slots, and is gone. The second counts an exchange of loaded and previous.
struct magazine *front_grown(struct front *front, unsigned class, struct magazine *empty);
struct magazine *front_outgrown(struct front *front, unsigned class, struct magazine *empty);

// Whether the next exchange is one after which magazines grow.
static inline bool front_grows_next(const struct front *front, unsigned class)
{
	return (front->exchanges[class] + 1u) % EXCHANGES_A_STEP == 0;
}
