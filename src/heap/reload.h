// Reload: what a miss does (front_refill, front_make_room), and its parts that give magazines away.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"

// The previous or the loaded magazine, if any, to the depot or the slabs.
void front_give_previous(struct front *front, unsigned class);
void front_give_loaded(struct front *front, unsigned class);

// The rounds to where they belong; the magazine stays as it is.
void front_drain_magazine(struct arena *arena, unsigned class, struct magazine *magazine);
