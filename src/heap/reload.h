// Reload: what a miss does (front_refill, front_make_room), and its parts that give magazines away.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"

// The previous or the loaded magazine, if any, to the depot or the slabs.
uint32_t front_give_previous(struct front *front, unsigned class);
uint32_t front_give_loaded(struct front *front, unsigned class);

// The rounds to where they belong; the magazine stays as it is.
void front_drain_magazine(struct arena *arena, unsigned class, struct magazine *magazine);

// What a thread that ends had loaded: where the depot has no rounds it is left to the next thread, however many it has; else put away, see below.
void front_hand_down(struct arena *arena, unsigned class, struct magazine *magazine);

// A full magazine, for fronts of processors too: whether its objects lie scattered, and to the depot or the slabs (NULL: nothing to do).
bool front_is_scattered(const struct arena *arena, unsigned class, const struct magazine *full);
void front_put_away(struct arena *arena, unsigned class, struct magazine *magazine);
