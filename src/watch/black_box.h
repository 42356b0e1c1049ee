// Black box: a shared mapping of a file in which counters and samples are written a second time (include/vmag/format.h).
//
// What the profile knows is private memory, which a fork copies exactly and cheaply; this is its mirror. Stacks and tallies are
// added by whoever samples, under the tallies' lock; counts follow each sampled allocation and free. The rest is written by
// whoever comes by, four times a second. A child never writes into its parent's box, but makes one of its own when it has
// allocated a little. A process that ends by exit() removes its box.
//
// The file's space is taken when it is made, and its descriptor closed. Who truncates the file kills the process.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmag/format.h"
#include "watch/stacks.h"

// Makes the file that is wanted: once when the options say so, and again in a child. True: now there is one, and the profile
// shall tell it what it knows. No lock is held.
extern _Atomic bool black_box_wanted;
bool black_box_begin(void);

extern struct vmag_box *_Atomic black_box; // NULL: none

// Adds a tally, or changes its counts, or forgets it. Under the tallies' lock, but for the counts.
void black_box_add(uint32_t number, struct stack *stack, const struct vmag_box_tally *tally);
void black_box_count(uint32_t number, int live, int total);
void black_box_forget(uint32_t number);

// The name of a thread, and of an object cache, by their numbers.
void black_box_name(uint32_t thread, const char *name);
void black_box_cache(unsigned number, const char *name);

// Fills in the counters; set once by a floor above.
extern void (*black_box_counters)(struct vmag_box_counters *counters);

// Writes counters and maps, if that is due; who comes by too soon leaves it to the background thread, if there is one. No lock is held.
void black_box_look(uint64_t now_ms, bool active, unsigned lg_sample, uint64_t lost);
extern _Atomic bool black_box_is_behind;

// The process ends by itself.
void black_box_end(void);

// The box is the parent's: a child makes one of its own.
void black_box_fork_child(void);
