// Arena: bins, depots and page runs that a set of threads shares (2006; 2011).
//
// Threads are given to arenas in turn, the least used first. What an arena allocated returns to it, whichever thread frees.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap/size_class.h"
#include "magazine/depot.h"
#include "pages/runs.h"
#include "slab/bin.h"

// Numbers of arenas, and those that threads' arenas may take of them: the rest is the program's.
enum { ARENAS_MOST = 240, ARENAS_AUTOMATIC_MOST = ARENAS_MOST - 64 };

enum { KEPT_MOST = 1024 * 1024, KEPT_SIZES = 16, KEPT_PAGES = 16 };

// Objects of a large class, ever.
struct large_count {
	_Atomic uint64_t allocated, freed;
};

struct samples;

enum arena_state {
	ARENA_LIVE,
	ARENA_CLOSED,    // all its objects are being taken away
	ARENA_DESTROYED, // its number waits to be used again
};

struct arena {
	// Constant after creation.
	unsigned id;
	uint64_t created_at; // ms
	bool is_explicit; // made by the program (heap/explicit.h): threads are given others
	// Atomic.
	_Atomic unsigned threads; // whose own it is
	_Atomic unsigned guests;  // other threads whose common objects come from it
	_Atomic bool streams;     // others free its objects, again and again
	_Atomic uint8_t state;      // changed under the lock of the table of arenas
	_Atomic uint32_t visitors;  // threads that are giving back memory of it
	_Atomic ssize_t muzzy_decay_ms; // kept and told, without effect
	_Atomic size_t grown_bytes; // active bytes when what is idle was last given back lest the heap grow, or a step above the least since then
	_Atomic size_t front_bytes; // of objects that the magazines of its fronts may come to hold
	_Atomic uint64_t reap_at;   // when the depots' working sets were last looked at, ms
	_Atomic size_t own_room;    // of runs that its fronts may have at hand (heap/own_runs.h)
	// Each with its lock. What small programs write to fills two pages, up to within the free lists of `pages`; most leave no magazine in a depot.
	struct bin bins[SLAB_CLASSES];
	struct pages pages;
	struct run *_Atomic kept[KEPT_SIZES + KEPT_PAGES]; // one run at most of each class from CLASSES on; of 1, 2 … pages (heap/kept.h)
	const void *reset_by; // while it is closed: whose words reset it, NULL: it is being destroyed; changed under the lock of the table of arenas
	struct samples *_Atomic samples; // small objects that were sampled (heap/samples.h); NULL before the first
	uint64_t allocs_at_step;    // of runs, when the background thread took a step, which alone uses this
	_Atomic uint64_t passed_since; // ms; and bytes that came to depots that had enough since then, and in PASSING_MS (heap/arena.c) before it
	_Atomic size_t passed, passing;
	_Atomic size_t depot_rounds[CLASSES]; // what the depots tell: no sum, which every exchange would have to add to atomically
	struct depot depots[CLASSES];
	struct large_count large[LARGE_CLASSES + SLAB_CLASSES]; // by class − SLAB_CLASSES; then, by class, sampled ones of slab classes that are page runs
};

// `size`: of a page run's object.
static inline struct large_count *arena_large_count(struct arena *arena, size_t size)
{
	unsigned class = size_class(size);

	return &arena->large[class < SLAB_CLASSES ? LARGE_CLASSES + class : class - SLAB_CLASSES];
}

// Both of one reading, never more freed than allocated; an estimate while others run.
struct large_reading {
	uint64_t allocated, freed;
};

static inline struct large_reading large_count_read(const struct large_count *count)
{
	uint64_t freed = atomic_load_explicit(&count->freed, memory_order_acquire);
	uint64_t allocated = atomic_load_explicit(&count->allocated, memory_order_relaxed);

	return (struct large_reading){ allocated, min_size(freed, allocated) };
}

// The page map's word for objects of a class of an arena; class 0: large, not kept in magazines.
static inline uintptr_t arena_word(unsigned arena, unsigned class)
{
	return (uintptr_t)(arena + 1) << 8 | class;
}

static inline unsigned word_class(uintptr_t word)
{
	return (uint8_t)word;
}

// The arena for a new thread, which is counted in as by arena_bind. NULL: no memory for the first arena.
struct arena *arena_for_thread(void);

// Where a thread whose own arena that is has its common objects from, those of a cache line and more that magazines keep and page runs
// beyond KEPT_MOST: all threads from one, until they wait for its locks again and again (arenas_look); from then on they are apart. While they are few they
// are apart in all but page runs (front_is_apart).
struct arena *arena_common(struct arena *own);
bool arenas_apart(void);
void arenas_look(void);

// What a thread may leave behind, resident, in an arena that it has no more objects from: nobody else may come for them.
enum { LEFT_BEHIND_MOST = 2 * 1024 * 1024 };

static inline size_t arena_resident_bytes(const struct arena *arena)
{
	return pages_active_bytes(&arena->pages) + pages_dirty_bytes(&arena->pages);
}

static inline unsigned arena_users(const struct arena *arena)
{
	return atomic_load_explicit(&arena->threads, memory_order_relaxed) + atomic_load_explicit(&arena->guests, memory_order_relaxed);
}

// Where a page run comes from that the thread would have from `own`: before that takes a chunk another one's dirty pages serve, if they are more than
// `own` may keep and there is a place for it (docs/decisions/0058).
struct arena *arena_for_run(struct arena *own, size_t size);

// The arena of that number, NULL when there never was one.
struct arena *arena_of(unsigned id);

// The same by the page map's word of an object; NULL also for word 0.
static inline struct arena *arena_of_word(uintptr_t word)
{
	return arena_of((unsigned)(word >> 8) - 1);
}

// All that there are, by number, destroyed ones among them, which are empty: the one after that, NULL: the first. NULL: no more.
struct arena *arenas_next(const struct arena *before);

// How many there are that were not destroyed; how many numbers there are: of all that threads may be given, and of explicit ones, destroyed or not; whether
// there ever was one of these.
unsigned arenas_live(void);
unsigned arenas_numbers(void);
bool arenas_had_explicit(void);

// Of automatic ones: how many threads are given at most, for which processors are counted when it is asked first; how many were made, one at least; and
// from how many of these threads have common objects, but for few (front_is_apart).
unsigned arenas_automatic_most(void);
unsigned arenas_automatic_made(void);
unsigned arenas_sharing(void);
unsigned arenas_processors(void); // that are available, one at least

// Makes the automatic arena of that number if it is not there; makes an explicit one, or one anew of a number whose arena was
// destroyed. NULL: no memory, or no number left.
struct arena *arena_make_automatic(unsigned id);
struct arena *arena_make_explicit(void);

// Where automatic arenas take their memory (pages/sources.h), NULL: from the heap region. Called once, before the first.
void arenas_set_source(struct extent_hooks_s *hooks);

// Makes a live explicit arena closed, if no more than that many threads are bound to it, and waits until nobody is visiting. `reset_by`: the caller's
// words; NULL: it is to be destroyed.
// Makes a closed one live or destroyed. False: not possible.
bool arena_close(struct arena *arena, unsigned threads, const void *reset_by);
void arena_reopen(struct arena *arena, enum arena_state state);

// Binds a thread to an arena. False: it is not live.
bool arena_bind(struct arena *arena);
void arena_unbind(struct arena *arena);

// Whoever gives back memory of an arena does so between these. False: it is not live; arena_leave is not called then.
bool arena_enter(struct arena *arena);
void arena_leave(struct arena *arena);
void arena_enter_anyway(struct arena *arena); // whatever its state: who closes it from now on waits

// Fresh objects of a class from slabs or page runs, as bin_fill leaves them. Returns how many, 0: no memory.
size_t arena_fill(struct arena *arena, unsigned class, void **rounds, size_t count);

// Whether the class has no free buffer, and the heap would have to grow for one, being an eighth larger than when what was idle was last
// given back. Whoever hears so gives back what he has himself, then the arena's.
bool arena_grows(struct arena *arena, unsigned class);
void arena_give_idle(struct arena *arena);

// Whether free buffers of the class's slabs are a notable part of the heap: what comes back had better go there, and what goes out come from
// the lowest, until slabs become empty (docs/decisions/0048). An estimate while others run.
bool arena_slabs_are_sparse(const struct arena *arena, unsigned class);

// Puts objects back into slabs or page runs, whichever arena owns them. `call` is named in a report of misuse.
void arena_drain(struct arena *arena, unsigned class, void *const *rounds, size_t count, const char *call);

// Bytes of objects in the full magazines of its depots.
size_t arena_depot_bytes(const struct arena *arena);

// Whether with that many more rounds of a class the arena's depots hold more than they may. Those of a class whose slabs are sparse may hold none.
bool arena_depot_is_full(struct arena *arena, unsigned class, size_t rounds, bool scattered);

// Exchanges a full magazine for an empty one, or the other way round; NULL: the depot has none to give, and an empty one
// was not taken.
struct magazine *arena_exchange_full(struct arena *arena, unsigned class, struct magazine *full);
struct magazine *arena_exchange_empty(struct arena *arena, unsigned class, struct magazine *empty);
void arena_put(struct arena *arena, unsigned class, struct magazine *magazine);

// Drains what the depots' working sets did not need since the last call, or everything; true when there was something.
bool arena_reap(struct arena *arena, bool everything);

// Before the arena takes that many bytes of pages: drains from the depots, if that may spare it fresh ones.
void arena_reap_before_growth(struct arena *arena, size_t wanted);

// Tells readers in other processes where the table of arenas is.
struct vmag_root;
void arenas_tell(struct vmag_root *root);

void arenas_fork_prepare(void);
void arenas_fork_done(bool child);
