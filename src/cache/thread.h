// What the fronts of object caches know of their threads: each has a table by cache id, and all are in a list.
//
// A thread's table is its own. It grows, and others take magazines out of it, under the lock of the list of threads.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/front.h"

struct cache_thread {
	struct cache_thread *next, *prev; // list of all, under its lock
	void ***tops;
	size_t count;
	uint64_t tidied_at; // ms
};

// Where there is no magazine: allocating and freeing both miss.
extern void *const cache_closed_magazine[2] HIDDEN;
#define CACHE_CLOSED ((void **)(uintptr_t)&cache_closed_magazine[1])

// NULL: no table yet, or the thread is past its end.
static inline struct cache_thread *cache_thread_this(void)
{
	return (struct cache_thread *)(void *)cache_words.tops[-1];
}

static inline struct cache_front **cache_thread_fronts(const struct cache_thread *thread)
{
	return (struct cache_front **)(void *)(thread->tops + thread->count);
}

// This thread's front of the cache with that id, NULL: it has none.
static inline struct cache_front *cache_thread_front(unsigned id)
{
	return id < cache_words.count ? cache_thread_fronts(cache_thread_this())[id] : NULL;
}

// Makes the table long enough for the id. False: no memory, or the thread is past its end.
bool cache_thread_reserve(unsigned id);

// For one cache, or for each, of which this thread has magazines, and which is not destroyed already. Under the list's lock:
// somebody may be destroying a cache that this thread does not use any more.
typedef void cache_visit(struct vmag_cache *cache, struct cache_front *front);
void cache_thread_visit(unsigned id, cache_visit *visit);
void cache_thread_visit_all(cache_visit *visit);
