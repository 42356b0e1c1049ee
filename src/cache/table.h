// Table of all object caches: their ids, and holding one while it is visited.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"

// What the floors above lend: `trim` gives back memory of the heap when a cache has none (true: something was given);
// `expect` hears that so many bytes of garbage are left to a background thread; `moved`, that an object of the program is in another place
// from now on (`to` NULL: freed), before its old place is. Called once, before any other function.
void caches_init(bool (*trim)(void), void (*expect)(size_t bytes), void (*moved)(const void *from, const void *to));
bool caches_trim_heap(void);
void caches_expect_garbage(size_t bytes);
void caches_tell_moved(const void *from, const void *to);

// Gives the cache the lowest free id. False: the table is full.
bool caches_enter(struct vmag_cache *cache);

// Waits until nobody has the cache pinned, nor can. caches_remove takes it out: until then destructors may use it, and threads that end
// leave their magazines. caches_free_id lets its id be used again.
void caches_leave(struct vmag_cache *cache);
void caches_remove(struct vmag_cache *cache);
void caches_free_id(unsigned id);

// The cache of that id, not to be destroyed before it is unpinned; NULL: there is none. Ids run from 0 to caches_end() − 1.
struct vmag_cache *cache_pin(unsigned id);
void cache_unpin(struct vmag_cache *cache);
unsigned caches_end(void);

// Calls the function for each cache, pinned meanwhile.
void caches_each(void (*function)(void *argument, struct vmag_cache *cache), void *argument);

// The same without holding it: for who holds what the destroyer of a cache needs.
struct vmag_cache *cache_of_id(unsigned id);

// Reports the use of what is no cache, or not any more.
void cache_expect_live(const struct vmag_cache *cache, const char *call);

// Reaps all caches. `callbacks` false: only those whose reaping calls nothing of the program, and without reclaim.
// `root`: only those whose source draws on that arena; NULL: all. True when pages were given back.
bool caches_reap(bool callbacks, void *root);

// Puts what is cached back into slabs, where misuse is noticed; only of caches for which nothing of the program is called.
void caches_verify(void);

// A step of giving back for all caches; true while something is left that a later step may give back.
bool caches_step(uint64_t now_ms);

// Bytes that could be given back.
size_t caches_garbage(void);

// Locks for fork, in steps as their ranks demand.
void caches_fork_lock_table(void);
void caches_fork_lock_depots(void);
void caches_fork_lock_bins(void);
void caches_fork_lock_pages(void);
void caches_fork_lock_extents(void);
void caches_fork_done(bool child);

// Where the table is, for readers in other processes.
struct vmag_root;
void caches_tell(struct vmag_root *root);
