// The heap: first use, and the slow side of every operation that the API offers.
//
// `call` is the name of the function that the program called, for reports of misuse. Functions that return memory return
// NULL and set errno to ENOMEM when there is none; those that free keep errno.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

// Sets the heap up at first use. False: there is no memory even for that.
bool heap_ready(void);

void *heap_malloc(size_t size);
void *heap_malloc_some(size_t size); // the same for who may not get NULL for 0 bytes, whatever the options say of that
// What a hit of the fast path would have been: its second try, whatever the door is closed for, then the slow side.
void *heap_malloc_missed(size_t size);
// What an allocation returns for which there is no memory: NULL, errno set; or the end, where an option asks for it.
void *heap_no_memory(void);
void *heap_calloc(size_t count, size_t size);
// Makes bytes of an object that is not guarded zero, and it may be those behind on the last page. Much is given back to the system, and so is not resident until
// it is touched.
void heap_zero(void *object, size_t from, size_t to);
void heap_free(void *object, const char *call);
// Through that front, or straight home when it is NULL.
struct front;
void heap_free_through(struct front *front, void *object, const char *call);
// `align` 0: of malloc, else of aligned_alloc. Reports a size or alignment that cannot be the one asked for.
void heap_free_sized(void *object, size_t align, size_t size, const char *call);
void heap_delete_sized(void *object, size_t size); // a small object may be larger than is told: deleted as its base, without a virtual destructor
void *heap_realloc(void *object, size_t size, const char *call);

// `align` is a power of two.
void *heap_aligned(size_t align, size_t size);

// How often realloc(p, 0) was called.
extern _Atomic size_t heap_zero_reallocs;

// The arena that this thread allocates from; NULL: no memory for one.
struct arena;
struct arena *heap_own_arena(void);

// The one from which it has page runs of that many bytes: those that are not kept at hand when they are freed (heap/kept.h), and so cost page
// faults and not locks, are in common with other threads; and before that one grows another may serve (arena_for_run).
struct arena *heap_run_arena(size_t size);

// Whether the sampling profiler wants an allocation of this thread of that many bytes, on its class's line or that one (watch/profile.h); and such
// an allocation, of `arena`, recorded: every free of it meets the profile. NULL: no memory.
bool heap_is_sampled(size_t bytes);
bool heap_is_sampled_on(unsigned line, size_t bytes);
void *heap_alloc_sampled(struct arena *arena, size_t bytes, size_t align, bool *zeroed);

// Resizes a large object to another large size, in place or else by moving its pages into `arena` (NULL: in place only).
// NULL: not possible, the object is as before.
void *heap_resize(struct arena *arena, void *object, size_t old_size, size_t new_size);

// Bytes of the object that such a request gets (`align` 0: of malloc); 0: there can be none.
size_t heap_size_for(size_t align, size_t size);

// Bytes that the program may use; 0 for NULL; reports what is not an object of ours.
size_t heap_usable_size(const void *object, const char *call);

// The same without a look at UMEM_DEBUG (heap/debug.h): memory for the library itself, not seen by debugging. What one gives
// heap_plain_free takes back.
void *heap_plain_malloc(size_t size);
void *heap_plain_aligned(size_t align, size_t size);
void heap_plain_free(void *object, const char *call);
size_t heap_plain_usable_size(const void *object, const char *call);

// Gives back all that can be; true when something was.
bool heap_trim(void);

// Gives back what another allocation may then have; true when something was.
bool heap_make_room(void);

// Around fork: all locks of the floors up to here are taken in the order of their ranks, and given back in the parent and in the child, which makes up for
// the threads that it does not have. Each module that has locks has such a pair (os/mutex.h).
void heap_fork_prepare(void);
void heap_fork_done(bool child);

// The same for a process of one thread that does nothing special: no lock is anybody's, once no background thread gives back, and the child is as the parent
// was. What is not written to is not copied. False: it has to be the other way.
bool heap_fork_prepare_alone(void);
void heap_fork_done_alone(bool child);
