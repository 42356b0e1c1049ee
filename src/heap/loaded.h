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

void front_keep_previous(struct front *front, unsigned class, struct magazine *magazine);

// The previous one is loaded, and `loaded`, which was, becomes the previous one.
void front_exchange(struct front *front, unsigned class, struct magazine *loaded);

// Fills in what counting needs: of a fresh front.
void front_prepare_to_count(struct front *front);

// Of the loaded magazine, which there is.
uint32_t front_rounds_loaded(const struct front *front, unsigned class);

// Takes an object as the uppermost round. False: there is no room.
bool front_put(struct front *front, unsigned class, void *object);
