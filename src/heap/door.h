// Door: sends the operations of a thread, or of all threads, the slow way, where whatever watches can meet them.
//
// The fast paths have one exit, the miss (design, idea 3). While a thread's door is closed all its words point into the
// closed magazine, so that every malloc and free misses; its magazines stay loaded and are used from the front's own
// tops. The slow paths look at words.door, which tells why. An open door costs nothing.
//
// Another thread's door is closed from outside in two steps: its words are closed at once, and at its next miss, which is
// then its next operation, it obeys `door_wanted`. A thread that has read a word before it was closed and writes it afterwards
// opens that class again, until its next miss, and who allocates and frees in turn never misses: so for a moment all allocations
// miss (fronts_close_sizes), until all have obeyed or stand still (docs/decisions/0009-door.md).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "heap/front.h"

enum door {
	DOOR_COUNT = 1,    // exact counters of the thread
	DOOR_HOOKS = 2,    // the thread is in an extent hook of the program
	DOOR_TRACE = 4,    // the event trace
	DOOR_CPU = 8,      // fronts of processors serve
	DOOR_GUARD = 16,   // debugging of every object
	DOOR_NOCACHE = 32, // the thread wants no magazines
	DOOR_FILL = 64,    // objects are filled: options junk, zero
	DOOR_PEAK = 128,   // the most that the counters differed by
};

// Of this thread, from its next operation on.
void door_close(enum door why);
void door_open(enum door why);

// Of all threads, present and future. Takes the lock of the fronts. Closing waits for threads that run, some milliseconds at most.
void doors_close(enum door why);
void doors_open(enum door why);

// Who comes by looks after doors that were closed of late, for threads that stood still meanwhile in the middle of an operation.
extern _Atomic unsigned doors_looks; // that are left
void doors_look_again(uint64_t now_ms);

static inline void doors_look(uint64_t now_ms)
{
	if (UNLIKELY(atomic_load_explicit(&doors_looks, memory_order_relaxed) != 0))
		doors_look_again(now_ms);
}

// Around extent hooks of the program, which may allocate. Meanwhile it is as if the thread had no front: what its magazines are in the middle of stays as it
// is, and arena 0 serves (as in jemalloc), and not the arena that waits for memory. Before: false, and it is not to be called after: the thread is in one
// already, or has no front.
bool door_around_hooks(bool before);

// Makes the thread's door as it is wanted; called at each miss.
void door_change(struct front *front);

static inline void door_obey(struct front *front)
{
	if (UNLIKELY(atomic_load_explicit(&front->door_wanted, memory_order_relaxed) != front->words->door))
		door_change(front);
}

// front_get, in place where the thread has a front.
static inline struct front *front_at_once(void)
{
	struct front *front = words.front;

	if (UNLIKELY(front == NULL))
		return front_get();
	door_obey(front);
	return front;
}

// A program that counts takes a resize that changed nothing for a free and an allocation, as jemalloc counts it.
static inline void door_kept(struct front *front, size_t size)
{
	if (LIKELY((words.door & DOOR_COUNT) == 0))
		return;
	front->freed += size;
	front->allocated += size;
}

// What happens at each operation of a thread whose door is closed: after an object was allocated, before it is freed, and
// after it was resized, in place or with its pages (`is_moved`: its old place was told as freed). `size`, `old_size`: bytes that the program may use.
void door_allocated(struct front *front, void *object, size_t size);
void door_freeing(struct front *front, void *object, size_t size);
void door_resized(struct front *front, void *object, size_t old_size, size_t size, bool is_moved);

// The front that this thread's operations go through; NULL: straight to the slabs.
static inline struct front *door_front(void)
{
	struct front *front = front_at_once();

	return UNLIKELY(words.door & (DOOR_NOCACHE | DOOR_HOOKS)) ? NULL : front;
}

// Whether the front of the processor serves this thread.
static inline bool door_leads_to_cpu(void)
{
	return (words.door & (DOOR_CPU | DOOR_NOCACHE | DOOR_HOOKS)) == DOOR_CPU;
}
