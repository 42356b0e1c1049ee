// Loaded: the magazine that a class works with and the round ahead of it. All between front_enter and front_leave.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"

// What the class works with from now on; NULL: nothing, it is closed. One that comes from the depot was touched long ago: its lines are asked for at once.
void front_load(struct front *front, unsigned class, struct magazine *magazine);
void front_load_cold(struct front *front, unsigned class, struct magazine *magazine);

// The loaded magazine, its rounds counted, NULL: there is none; the class is closed. The second takes the round ahead along, which goes into its slab when
// the magazine has no room for it.
struct magazine *front_unload(struct front *front, unsigned class);
struct magazine *front_unload_all(struct front *front, unsigned class);

// Makes a magazine the previous one; NULL: there is none.
void front_keep_previous(struct front *front, unsigned class, struct magazine *magazine);

// The previous one is loaded, and `loaded`, which was, becomes the previous one.
void front_exchange(struct front *front, unsigned class, struct magazine *loaded);

// Fills in what counting needs: of a fresh front.
void front_prepare_to_count(struct front *front);

// Rounds: of the loaded magazine, which there is; of it if the word is `top` (where that is the closed magazine's the empty slots tell); of it and
// ahead of it, of the calling thread's front.
uint32_t front_rounds_loaded(const struct front *front, unsigned class);
uint32_t front_rounds_below(const struct front *front, unsigned class, void **top);
size_t front_rounds(const struct front *front, unsigned class);

// Takes an object as the uppermost round. False: there is no room.
bool front_put(struct front *front, unsigned class, void *object);

// The last round that the class has, when there is no memory to reload; NULL: none.
void *front_last(struct front *front, unsigned class);

// Makes the tops in use the front's own, all of the thread's words being closed; or the other way round.
void front_close_words(struct front *front);
void front_open_words(struct front *front);

// Of closed words: whether the thread's exact counters are all that they are closed for.
void front_count_words(struct front *front, bool alone);

static inline void front_count_word(struct front *front, unsigned class)
{
	front->words->top[class] = (void **)&front->counted[FRONT_COUNTED_TOP];
}
