// Fronts of processors: the loaded and previous magazines that all threads share which run on one (2001, §3.1).
//
// A front has a slot for each size class of malloc and for each object cache. Objects are taken and put by restartable
// sequences (os/rseq.h) on the processor's words, one word a slot, without a lock. A miss takes the front's lock for a
// few instructions. Threads migrate, so the lock alone does not tell which processor one runs on:
//
//   loaded → hand    rseq_exchange(top, closed): it happens on that processor or not at all. Afterwards the slot is closed, no
//                    sequence can commit to it, and the magazine is in the hand of one thread
//   hand → loaded    while there is none: a plain store under the lock, from anywhere
//
// What may take long (the depot, slabs, the system) is done with the magazine in hand and no lock; when it comes back
// and somebody else was faster, it becomes the previous one or goes to the depot.
//
// Magazines of all processors are reached by stopping: the number before each front's words becomes that of no processor, a fence ends
// the sequences under way, and until the fronts are started again all threads go to the slabs. So idle processors' magazines
// are given back, malloc_trim empties all of them, and a fork finds them whole.
//
// Memory is bounded by processors, not threads; a thread that ends leaves nothing behind. A front is made when a
// thread first misses on its processor. Chosen by the option front:cpu; docs/decisions/0016-cpu-fronts.md.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "magazine/magazine.h"
#include "os/mutex.h"
#include "os/rseq.h"
#include "util/bits.h"

// Slots: classes of malloc by their numbers, then object caches by their ids.
// Before each of the two kinds lies the processor's number, for sequences.
enum { PROCESSOR_CLASSES = 64, PROCESSOR_CACHES = 16384, PROCESSOR_SLOTS = PROCESSOR_CLASSES + PROCESSOR_CACHES };

static inline unsigned processor_slot_of_cache(unsigned id)
{
	return PROCESSOR_CLASSES + id;
}

struct processor_slot {
	struct magazine *loaded; // NULL: the slot is closed
	struct magazine *previous;
	void **seen;         // top when idle magazines were last looked for
	uint8_t batch;       // of the next fill; 0: none yet
	uint8_t exchanges;   // of loaded and previous, for who lets magazines grow by them
	uint8_t capacity;    // of the next magazine, likewise
};

struct processor {
	// Constant after creation.
	int number;
	unsigned place; // how many fronts were made before
	void ***tops;   // by slot; written by sequences on the processor, and by the holder of the lock where they cannot commit
			// tops[−1] and the last one of malloc's are no tops: the number, while the front is not stopped
	// Under lock.
	struct mutex lock __attribute__((aligned(CACHE_LINE)));
	bool stopped;
	uint32_t misses;
	struct processor_slot *slots;
};

// Words of no processor. NULL: fronts of threads serve.
extern void ***cpu_nowhere HIDDEN;

// What lies before the number: of each slot of malloc's, what whoever uses the fronts says of its objects. 0 at first, and on no processor.
// Who pushes compares: what he finds holds for the front that the sequence commits to, or the sequence misses.
static inline uint16_t *processor_kinds(void ***tops)
{
	return (uint16_t *)(void *)(tops - 1) - PROCESSOR_CLASSES;
}

// The tops of malloc's classes, or of object caches, on the processor that this thread runs on; of no processor when there
// is no memory for a front. For sequences, which notice when the thread has come elsewhere.
void ***processor_tops(void);
void ***processor_tops_of_caches(void);

// False: there are no restartable sequences here, or no memory. Once, before any other call.
bool processors_init(void);

// Lets a slot be used that nobody uses: on all processors it is closed and holds nothing.
void processors_open(unsigned slot);

// The front of the processor that this thread runs on, locked; it may run on another one at any time. NULL: fronts are
// stopped, or there is no memory.
struct processor *processor_enter(void);
void processor_leave(struct processor *processor);

enum found {
	FOUND_MOVED,    // nothing happened: this thread runs on another processor now
	FOUND_RELOADED, // what was missing is there; in hand: what is too small to go on with, or NULL
	FOUND_NOTHING,  // the front has none; in hand: what goes to the depot, or NULL
};

// Figure 3.1b, as far as the front's own magazines go: rounds to allocate, or empty slots to free into. Empty magazines of
// less than `wanted` rounds are not kept. The front is locked.
enum found processor_find_rounds(struct processor *processor, unsigned slot, unsigned wanted, struct magazine **hand);
enum found processor_find_slots(struct processor *processor, unsigned slot, struct magazine **hand);

// A magazine comes back from the depot or from the slabs, wherever the thread runs by now. What is returned is not needed here any more,
// NULL: nothing.
struct magazine *processor_bring(struct processor *processor, unsigned slot, struct magazine *magazine);

// Takes magazines of slots from `first` to `end` − 1 out of all processors: all, or those that were not used since the last
// time but one. Each is given away under the locks of fronts; false: it stays where it was. Calls the system when there is anything.
// True: there may be more to give the next time. Does nothing in a thread that forks.
typedef bool processor_give(void *context, unsigned slot, struct magazine *magazine);
bool processors_collect(unsigned first, unsigned end, bool everything, processor_give *give, void *context);

// All magazines of a slot that nobody uses any more, chained.
struct magazine *processors_take(unsigned slot);

// For each magazine of the slot, under its front's lock: how many rounds it holds, exactly while nobody uses it.
typedef void processor_look(void *context, unsigned slot, const struct magazine *magazine, size_t rounds);
void processors_look(unsigned first, unsigned end, processor_look *look, void *context);

// Tells readers in other processes where the fronts are.
struct vmag_root;
void processors_tell(struct vmag_root *root);

void processors_fork_prepare(void);
void processors_fork_done(bool child);
