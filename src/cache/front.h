// Front of the object caches: what a thread keeps of each, one word on the fast path and the rest behind it.
//
//   cache_words.tops ──► [ thread │ top 0 │ top 1 │ … │ top count−1 │ front 0 │ front 1 │ … │ front count−1 ]
//                                    │ after the last round of the loaded magazine of the cache with id 0
//
// As in malloc's front, a top without magazine points into a closed one in which everything misses. Every thread has tops for
// CACHE_FAST_IDS ids, shared closed ones at first, so that the fast path need not ask; caches beyond go by the miss. Unlike malloc's, an
// empty slot may hold anything: a cache knows whose objects it gets, so free looks only for the guard behind the last slot, as
// free_sized does.
//
// Tops and fronts of a thread are its own; the list of threads and the size of their tables change under the list's lock.
// Destroying a cache takes its magazines out of all threads, which do not use that cache any more.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"
#include "magazine/processors.h"

enum { CACHE_FAST_IDS = 256 }; // the last one is no cache's: its top is always closed

struct cache_words {
	// For the fast paths: the two below while the thread's door is open; closed tops and NULL while it is closed, so that whoever
	// watches meets every operation, and after the two have changed, until the next miss.
	void ***fast_tops;
	void ***fast_cpu;
	void ***tops;
	void ***cpu; // the tops of its processor, or of the one it was on last, where processors serve this thread (cache/cpu.h), which
		     // has no tops of its own; else NULL
	void *built; // the last object that it had constructed, where processors serve it: a hint (bin_take)
	uint32_t count; // of its own tops
	uint32_t misses;
	bool ended; // the thread is past its end: it gets no tops again
};

extern __thread struct cache_words cache_words __attribute__((tls_model("initial-exec"))) HIDDEN;

// What a thread keeps of one cache beside the top: a cache line of its own.
struct cache_front {
	struct magazine *loaded, *previous;
	void **seen;              // top when the thread tidied last
	uint32_t previous_rounds; // of the previous magazine, and
	uint32_t capacity;        // of the loaded one, for who counts from outside
	uint16_t batch;           // of the next fill
	void *built;              // the last object that this thread had constructed: a hint (bin_take)
};

// Where the top for an id is, in bytes from a thread's first: what the fast paths keep in place of the id.
static inline uint16_t cache_fast_place(unsigned id)
{
	return (uint16_t)(min_size(id, CACHE_FAST_IDS - 1) * sizeof(void **));
}

static inline void ***cache_fast_top(uint16_t place)
{
	return (void ***)(void *)((char *)cache_words.fast_tops + place);
}

// A top that is read again is counted up or down by one instruction.
#define CACHE_READ_AGAIN __asm__ volatile("" ::: "memory")

// Of this thread's tops. NULL: a miss.
static inline void *cache_front_pop_of(uint16_t place)
{
	void ***at = cache_fast_top(place), *object = (*at)[-1];

	if (LIKELY(object != NULL)) {
		CACHE_READ_AGAIN;
		--*at;
	}
	return object;
}

// After that: of the processor's, where they serve this thread.
static inline void *cache_front_pop_here(unsigned id)
{
	void *object;

	return cache_words.fast_cpu != NULL && LIKELY(rseq_pop(cache_words.fast_cpu, id, &object)) ? object : NULL;
}

static inline void *cache_front_pop(const struct vmag_cache *cache)
{
	void *object = cache_front_pop_of(cache->fast_place);

	return LIKELY(object != NULL) ? object : cache_front_pop_here(cache->id);
}

// False: a miss. The object is not NULL.
static inline bool cache_front_push_of(uint16_t place, void *object)
{
	void ***at = cache_fast_top(place), **top = *at;

	if (UNLIKELY(*top == MAGAZINE_FULL))
		return false;
	*top = object;
	CACHE_READ_AGAIN;
	++*at;
	return true;
}

static inline bool cache_front_push_here(unsigned id, void *object)
{
	return cache_words.fast_cpu != NULL && LIKELY(rseq_push(cache_words.fast_cpu, id, object));
}

static inline bool cache_front_push(const struct vmag_cache *cache, void *object)
{
	return LIKELY(cache_front_push_of(cache->fast_place, object)) || cache_front_push_here(cache->id, object);
}

// At a miss: makes the thread's door as it is wanted.
void cache_door(bool open);

// The same of any cache, where nothing is in a hurry; and whatever the door.
void *cache_front_take(const struct vmag_cache *cache);
bool cache_front_put(const struct vmag_cache *cache, void *object);

// At a miss, before anything is taken apart: this thread's front of the cache is made, what was not used for a while given away,
// and looked what is due. False: no memory, the thread is past its end, or the cache has no magazines.
bool cache_front_begin_miss(struct vmag_cache *cache);

// Whether there are rounds beyond the loaded magazine: in the previous one of this thread, or in the depot. Read without a lock.
bool cache_front_has_more(const struct vmag_cache *cache);

// Then: makes rounds available, or empty slots. False: neither the depot nor memory has any.
bool cache_front_refill(struct vmag_cache *cache);
bool cache_front_make_room(struct vmag_cache *cache);

// Objects in a fill, at most.
enum { CACHE_BATCH_MOST = 252 };

// What fronts of threads and of processors have in common: rounds of the next magazine, and of the first fill; a new magazine; and
// an empty one if it is large enough, else NULL, and it is dropped.
unsigned cache_wanted_rounds(const struct vmag_cache *cache);
unsigned cache_first_batch(const struct vmag_cache *cache);
struct magazine *cache_new_magazine(const struct vmag_cache *cache);
struct magazine *cache_outgrown(const struct vmag_cache *cache, struct magazine *empty);

// Leaves a magazine that is in no front in the depot; a partial one fills another that is there.
void cache_leave_magazine(struct vmag_cache *cache, struct magazine *magazine);

// This thread's magazines of the cache, or those of all processors, go to the depot; of all caches.
void cache_front_flush(struct vmag_cache *cache);
void cache_fronts_flush(void);

// All threads' or all processors' magazines of the cache, chained; for who destroys it, until there are none.
struct magazine *cache_fronts_collect(struct vmag_cache *cache);

// How many rounds the magazines of all threads and processors hold: an estimate while others run. With `out` not NULL they are copied there,
// at most `most`.
size_t cache_fronts_rounds(struct vmag_cache *cache, void **out, size_t most);

// Whether they can be copied: other threads' by the kernel alone, which a sandbox may keep from it.
bool cache_fronts_can_be_read(const struct vmag_cache *cache);

void cache_fronts_init(void);
void cache_fronts_open(void); // before there is a cache
void cache_fronts_fork_lock(void);
void cache_fronts_fork_done(bool child);
