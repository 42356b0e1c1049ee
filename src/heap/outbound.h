// Outbound magazines: what a thread frees of other arenas' objects, on its way home or back into the thread's own use.
//
// A front has one for each class, whichever arenas own the rounds. A full one goes home: whole to the owner's depot if all of
// it is one owner's, else sorted, to each owner's slabs at once. Before that happens a thread that runs out of rounds
// takes it for its loaded magazine, and the empty one takes its place; a full one becomes the previous magazine of a thread that has
// few rounds left (docs/decisions/0029).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

#include "heap/front.h"

// Room for one more round of the class, by sending home what is there or making a magazine. False: no memory, or no
// room in the bound (heap/bound.h).
bool outbound_make_room(struct front *front, unsigned class);

// Rounds for a front whose loaded magazine is empty (NULL: none) and is taken in exchange, with empty slots of the front's own
// word; NULL: too few, or objects so small that threads would come to share cache lines.
struct magazine *outbound_exchange(struct front *front, unsigned class, struct magazine *empty);

// Sends home what is there, and forgets how large the magazines of classes were that sent nothing.
void outbound_flush(struct front *front);

// Puts all that is there back into slabs, where misuse is noticed, and nothing into depots.
void outbound_drain(struct front *front);

// Of the capacities of its outbound magazines; and gives them up.
size_t outbound_bytes(const struct front *front);
void outbound_forget(struct front *front);

// Sends home what a magazine holds. Returns an empty one, NULL: there is none. `arena` as below.
struct magazine *outbound_send_home(struct arena *arena, unsigned class, struct magazine *magazine);

// Puts rounds back into the slabs of whichever arenas own them, an owner's at once. Their order changes. `arena` is asked about
// those that are misuse, `call` named then.
void rounds_go_home(struct arena *arena, unsigned class, void **rounds, size_t count, const char *call);

// Brings the rounds with that word of the page map before the others. Returns how many.
size_t rounds_gather(void **rounds, size_t count, uintptr_t word);
