// Fronts: the list of all threads' fronts, under its lock.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/arena.h"
#include "heap/size_class.h"

struct front;
struct vmag_root;

// A front begins, its door as all doors are; and ends.
void fronts_join(struct front *front);

// Whether the program has few threads, so that each may have an arena of its own; for good not when there were more once, or much in common. Who looks
// tells the time, ms.
bool fronts_are_few(void);
bool fronts_look(uint64_t now);
void fronts_leave(struct front *front);

// Takes out those whose threads are gone and never came by front_end: a list by `next`. The caller is then in the arena of each (arena_leave), so that
// no reset misses what they hold.
struct front *fronts_take_gone(void);

// Calls `visit` for one front after the other, under the lock, until it says true. Whether it did. `go_on`: behind the one that was found last, by the
// background thread, which alone looks for them.
bool fronts_find(bool go_on, bool (*visit)(struct front *front, void *argument), void *argument);

// Whether it has any, of its own arenas' objects.
bool front_has_magazines(const struct front *front);

// Whether a thread other than the caller is bound to the arena and has magazines.
bool fronts_hold(const struct arena *arena);

// Rounds held by all fronts and depots, by class, read without stopping anyone: an estimate while others run.
void fronts_and_depots_count(size_t rounds[CLASSES]);
// By fronts alone, in bytes, by the number of the arena: of small objects, and of large ones.
void fronts_cached(size_t bytes[ARENAS_MOST][2]);
unsigned fronts_live(void);
bool fronts_lost(void); // with what other threads of the parents had, in a child of fork

// Of the runs that fronts have at hand (heap/own_runs.h): bytes, and objects of them that the arena was not told of.
struct own_figures {
	uint64_t allocated[KEPT_SIZES], freed[KEPT_SIZES];
	size_t bytes;
};
void fronts_own_runs(const struct arena *arena, struct own_figures *figures);

// Of large objects of a class, theirs included.
struct large_reading fronts_large(const struct arena *arena, const struct own_figures *figures, unsigned class);

// Closes the words of all threads as far as that can be done from outside: a thread that is just then in its fast path, or in the middle of a miss,
// opens one of them again and goes on with it, until it misses or is closed once more. Sets and clears bits of door_wanted.
void fronts_close_words(uint8_t set, uint8_t clear);

// Closes those of other threads that have not obeyed yet once more.
struct late {
	unsigned threads;
	bool open; // one of them had opened words again
};
struct late fronts_close_again(void);

// The same of this thread's own, also from a handler that came in the middle of its fast path. It takes effect at the thread's next operation.
void front_want_door(struct front *front, uint8_t set);
uint8_t fronts_door(void); // what the doors of all threads are closed for

// The fast paths' sizes closed, or opened, as sampling is wanted or not (heap/front.h).
void fronts_watch_sizes(void);

// Closed to sampling, too: until fronts_watch_sizes each allocation of all threads goes the slow way, whatever their words say.
void fronts_close_sizes(void);

// All threads' next points drawn anew, each when its thread comes to it.
void fronts_draw_points(void);

// Opens front_short_most whenever the sizes are open.
void fronts_serve_short(void);

// Closes front_delete_end for good: what sized delete frees is left to a program's own delete (api/operators.c).
void fronts_leave_delete(void);

// Tells readers in other processes where the list is.
void fronts_tell(struct vmag_root *root);

// The mutex of the list, for its figures.
struct mutex *fronts_mutex(void);

void fronts_fork_prepare(void);
void fronts_fork_done(bool child);
