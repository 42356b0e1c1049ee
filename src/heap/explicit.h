// Explicit arenas and caches: what a program makes and chooses itself (jemalloc's arenas.*, arena.<i>.*, tcache.*, thread.*).
//
// Arena numbers: first those of the arenas that threads are given, made when a thread needs them, then those that the
// program makes.
//
// Objects of an explicit arena are never on their way in outbound magazines: a thread of another arena frees them straight
// into their slabs. So they are only in slabs, in the depots of their arena, and in the fronts and caches bound to it, and
// arena_reset knows them all. (A sized free of C++ or C23, which does not look at its object, may take one into a magazine
// of another arena; it goes home when that leaves the front, by thread.tcache.flush at the latest.)
//
// Functions that return int return 0 or an error number, as mallctl would.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "heap/arena.h"
#include "heap/front.h"

struct extent_hooks_s; // include/jemalloc/jemalloc.h

// The arena of that number to allocate from: an automatic one is made if need be. NULL: no such number, destroyed, or no
// memory.
struct arena *arena_wanted(unsigned id);

// Whether there is an arena of that number now: made, and not destroyed.
bool arena_is_live(unsigned id);

// Makes an arena; `hooks` NULL: with the default ones. EAGAIN: no more numbers, or no memory.
int arenas_make(struct extent_hooks_s *hooks, unsigned *id);

// Takes away all objects of an explicit arena at once: slabs, large ones, and what the depots, the caches and this thread's
// front hold of it. EFAULT: no such explicit arena, or another thread that is bound to it still has magazines
// (thread.tcache.flush). The caller sees to it that no thread uses the arena meanwhile.
int arena_reset(unsigned id);

// In a child of fork: the resets that other threads were at. What was being destroyed stays closed.
void arenas_finish_resets(void);

// Resets it, gives its memory back, and its number to the next arena that is made. EFAULT: as above, or a thread is bound to it. `forget_number`, or NULL, is called
// before the number may be another's.
int arena_destroy(unsigned id, void (*forget_number)(unsigned id));

// What dirty pages of an arena do: −1 stay, 0 go at once, else go within so many milliseconds. EFAULT: below −1 or too large.
// The muzzy value is kept and told, but pages are never muzzy here: purged is purged.
ssize_t arena_dirty_decay_ms(const struct arena *arena);
ssize_t arena_muzzy_decay_ms(const struct arena *arena);
int arena_set_dirty_decay_ms(struct arena *arena, ssize_t ms);
int arena_set_muzzy_decay_ms(struct arena *arena, ssize_t ms);

// The same for arenas made from now on.
ssize_t arenas_dirty_decay_ms(void);
ssize_t arenas_muzzy_decay_ms(void);
int arenas_set_dirty_decay_ms(ssize_t ms);
int arenas_set_muzzy_decay_ms(ssize_t ms);

// Purges what decay has due by now; purges all unused dirty pages, after the depots' objects and empty slabs.
void arena_decay(struct arena *arena);
void arena_purge(struct arena *arena);

// The hooks in use; the default ones for an arena that was given none. Setting them returns the ones before.
struct extent_hooks_s *arena_hooks(const struct arena *arena);
struct extent_hooks_s *arena_set_hooks(struct arena *arena, struct extent_hooks_s *hooks);

// The calling thread's arena. Setting it moves the thread's front: what it holds goes home first. EFAULT: no such arena.
// EAGAIN: no memory for a front.
int thread_arena(unsigned *id);
int thread_set_arena(unsigned id);

// Whether the calling thread keeps magazines (thread.tcache.enabled). Without, each object comes from its slab and returns to it.
bool thread_has_cache(void);
void thread_set_cache(bool wanted);

// Explicit caches: fronts that are no thread's, used by one thread at a time (tcache.create). Numbers are used again, the last
// freed first. EAGAIN: no more numbers, or no memory. EFAULT: no such cache.
int explicit_cache_create(unsigned *id);
int explicit_cache_flush(unsigned id);
int explicit_cache_destroy(unsigned id);
bool explicit_caches_used(void); // whether there ever was one

// The cache of that number, made to serve that arena (NULL: the one it serves, or the thread's if that is gone): what it holds
// of another one goes home first. NULL: no such cache, or no memory.
struct front *explicit_cache_for(unsigned id, struct arena *arena);

// Drains the caches that hold objects of an arena; the users of these see to it that they are not used meanwhile.
void explicit_caches_leave(const struct arena *arena);

void explicit_caches_fork_prepare(void);
void explicit_caches_fork_done(bool child);
