// Large objects: a page run each, from 16 KiB up.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "heap/arena.h"

// An object of `size` bytes (a class size) at a multiple of `align` (0: a page). `class`: of its word, 0 when it is not kept
// in magazines. `*zeroed` (may be NULL): it reads as zero. NULL: no memory.
void *large_alloc(struct arena *arena, size_t size, size_t align, unsigned class, bool *zeroed);

// The same of `size` ≤ KEPT_MOST bytes beyond MAGAZINE_MOST from a run that is kept at hand (heap/kept.h); NULL: there is none.
void *large_alloc_kept(struct arena *arena, size_t size);

// Reports misuse under the name of `call`.
void large_free(void *object, const char *call);

// An object that has a word ends, and the arena keeps its run at hand. False: it does not want it, and nothing is done.
bool large_keep(struct arena *arena, void *object, const char *call);

// The two halves of freeing: an object ends, and its run, in the page map no more, is freed to the pages.
struct run *large_end(void *object, const char *call);
void large_release(struct run *run);

// Tells the statistics and the profile that an object is gone; large_free does.
void large_note_freed(const struct run *run);

// The bytes the program may use; 0 when this is not the start of a large object.
size_t large_size(const void *object);

// Makes the bytes from `from` on zero, to the end of the page that has the last before `to`, by giving the memory back. False: they are as they were, or zero
// in part.
bool large_clear(void *object, size_t from, size_t to);

// Resizes in place to a class size; false: the object is as before.
bool large_resize(void *object, size_t new_size);

// Resizes by moving the pages, not the bytes; NULL: not possible, the object is as before. Where it was, `*left`, is nobody's until large_leave, so that it
// can be told before another has it.
void *large_move(struct arena *arena, void *object, size_t new_size, struct run **left);
void large_leave(struct run *left);

// The tally of a sampled object (watch/profile.h), which freeing and moving it tell the profile. `take` leaves 0. What a program writes
// just behind such an object is reported when it is freed or resized.
void large_set_sample(void *object, uint32_t tally);
uint32_t large_take_sample(void *object, const char *call);

// Of an object whose page run is kept in magazines: while it is sampled, its word names no class, so that freeing it comes by. `unmark`
// tells the profile, gives the word back and returns it; 0: `run`, the address's or NULL, is that of no such object.
void large_mark(void *object, uint32_t tally);
unsigned large_unmark(struct run *run, void *object, const char *call);
