// Front: what a thread keeps for itself, one word a size class on the fast path and the rest behind it.
//
// words.top[class] points after the last round of the loaded magazine. Where there is none it points into the closed
// magazine [NULL, FULL], in which both allocating and freeing miss: the one door (design, idea 3). A thread's words are
// closed before its first use and after its end.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heap/arena.h"

enum { OUTBOUND_SLOTS = 16 };

// The thread-local part: 400 bytes, so that the library fits into the surplus that dlopen has.
struct front_words {
	void **top[CLASSES];
	uintptr_t word; // the page map's word of this thread's arena, class 0
	struct front *front;
	const void *caller; // of the free that missed last; NULL: of an allocation
	bool ended; // the thread is past its end: no front is made again
};

extern __thread struct front_words words __attribute__((tls_model("initial-exec"))) HIDDEN;

// Objects of another arena on their way home.
struct outbound {
	uintptr_t word;
	struct magazine *magazine;
};

// Of one thread; nobody else writes it.
struct front {
	struct arena *arena;
	struct front *next, *prev; // list of all fronts, under its lock
	uint64_t tidied_at;        // ms
	uint32_t misses;
	struct magazine *loaded[CLASSES];
	struct magazine *previous[CLASSES];
	void **seen[CLASSES];       // top when the front was last tidied
	uint8_t capacity[CLASSES];  // of the next magazine
	uint8_t batch[CLASSES];     // of the next fill
	uint8_t loaded_capacity[CLASSES]; // of the loaded magazine, and
	uint8_t previous_rounds[CLASSES]; // of the previous one, for statistics read by other threads
	uint8_t exchanges[CLASSES]; // of loaded and previous, counted round and round
	struct outbound outbound[OUTBOUND_SLOTS];
};

// This thread's front, made at first use. NULL: no memory, or the thread is past its end.
struct front *front_get(void);

// After a miss: makes rounds available, or empty slots. False: no memory.
bool front_refill(struct front *front, unsigned class);
bool front_make_room(struct front *front, unsigned class);

// Sends an object to the arena that owns it.
void front_send(struct front *front, uintptr_t word, void *object);

// Gives all that the front holds to the depots; the front stays usable.
void front_flush(struct front *front);

// Puts all rounds back into slabs and page runs, where misuse is noticed; the front stays usable.
void front_drain(struct front *front);

// Rounds held by all fronts, by class, read without stopping anyone: an estimate while others run.
void fronts_count(size_t rounds[CLASSES]);
unsigned fronts_live(void);

void fronts_fork_prepare(void);
void fronts_fork_done(bool child);
