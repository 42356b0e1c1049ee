// Object caches: objects of one kind, kept constructed between uses (2001, §2, §3).
//
//   struct session { pthread_mutex_t lock; char *buffer; … };
//
//   vmag_cache_t *sessions = vmag_cache_create("session", sizeof(struct session), 0,
//                                              session_construct, session_destroy, NULL, NULL, NULL, 0);
//   struct session *session = vmag_cache_alloc(sessions, VMAG_NOSLEEP);   // lock and buffer are ready
//   …
//   vmag_cache_free(sessions, session);                                   // as it was constructed: unlocked, with its buffer
//
// An object becomes constructed when its memory leaves the slab layer and destructed when it returns there; in between it
// goes through magazines as often as the program likes. All functions may be called by any thread, and by constructors,
// destructors and callbacks: no lock of the library is held while one of these runs.
//
// man 3 vmag_cache has the details; docs/object-caches.md is a tour of ten minutes.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_CACHE_H
#define VMAG_CACHE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function and a struct have one name
#endif

struct vmag_vmem; // an arena of <vmag/vmem.h>
typedef struct vmag_cache vmag_cache_t;

// How to allocate. SLEEP: wait until there is memory, never fail. NOSLEEP: NULL when there is none.
#define VMAG_SLEEP 0
#define VMAG_NOSLEEP 1 // as VMAG_VM_NOSLEEP of <vmag/vmem.h>

// What kind of cache.
#define VMAG_CACHE_NOTOUCH 0x00010000    // objects are integers, not memory: never read or written by the library
#define VMAG_CACHE_NOMAGAZINE 0x00040000 // no magazines: every allocation goes to the slab layer
#define VMAG_CACHE_QUANTUM 0x00100000    // a quantum cache: slabs of 64 objects or more, a power of two (2001, §4.4.4)

// 0: constructed. Anything else: not, and nothing is left behind; `flags` as at vmag_cache_alloc.
typedef int vmag_constructor_t(void *object, void *argument, int flags);
typedef void vmag_destructor_t(void *object, void *argument);

// Asked when the cache's source runs low, and by vmag_cache_reap: please free objects that are not strictly needed.
// It may use any cache, but not destroy this one, and must return (no longjmp, exception or thread's end).
typedef void vmag_reclaim_t(void *argument);

// A cache of objects of `size` bytes at multiples of `align` (a power of two; 0: 8, or 16 from 16 bytes on). Slabs come from
// `source`, NULL: ordinary memory. Constructor, destructor and reclaim may be NULL and get `argument`. The name is copied,
// up to 31 characters.
// NULL and errno: EINVAL (no name; size 0; `align` not a power of two, or above the source's quantum, of ordinary memory 2 MiB; unknown flag), ENOMEM
// (size arithmetic), EAGAIN (no memory for the cache, or 16,383 already).
vmag_cache_t *vmag_cache_create(const char *name, size_t size, size_t align, vmag_constructor_t *constructor,
				vmag_destructor_t *destructor, vmag_reclaim_t *reclaim, void *argument,
				struct vmag_vmem *source, int flags);

// Destructs what is cached and gives all memory back. No thread uses the cache any more, and all objects were freed; if not, a
// line on stderr tells how many are missing, and their slabs stay as they are.
void vmag_cache_destroy(vmag_cache_t *cache);

// A constructed object. NULL only with VMAG_NOSLEEP: no memory, or the constructor failed.
void *vmag_cache_alloc(vmag_cache_t *cache, int flags);

// The object is in its constructed state. NULL is let pass.
void vmag_cache_free(vmag_cache_t *cache, void *object);

// Up to `count` objects at once. Returns how many; less only with VMAG_NOSLEEP.
size_t vmag_cache_alloc_batch(vmag_cache_t *cache, void **objects, size_t count, int flags);
void vmag_cache_free_batch(vmag_cache_t *cache, void *const *objects, size_t count);

// A reserve: objects set aside for a caller that knows how many it may need and must not fail half-way. One thread at a time
// uses a reserve. NULL only with VMAG_NOSLEEP.
typedef struct vmag_reserve vmag_reserve_t;
vmag_reserve_t *vmag_cache_reserve(vmag_cache_t *cache, size_t count, int flags);
void *vmag_reserve_alloc(vmag_reserve_t *reserve); // NULL once all are taken; objects are freed by vmag_cache_free
size_t vmag_reserve_left(const vmag_reserve_t *reserve);
void vmag_reserve_release(vmag_reserve_t *reserve); // what is left goes back to the cache

// Gives back all that is cached and unused: asks the reclaim callback, drains this thread's magazines and the depot, frees
// empty slabs; of one cache, or of all caches of the process. What other threads keep in their magazines stays there.
void vmag_cache_reap(vmag_cache_t *cache);
void vmag_caches_reap(void);

// Moving objects, so that sparsely used slabs become free. The callback is asked to move the live object `from` into the
// constructed object `to`, and answers:
//   YES        moved; `from` is in its constructed state, without contents, and belongs to the library
//   NO         it can never move           LATER      not now
//   DONT_NEED  not moved, but the program frees `from`: as YES, `to` is not used
//   DONT_KNOW  not an object in use: it may lie in some magazine, constructed
// Another thread may free the object at any moment; its memory stays readable during the call, as its user, the constructor
// or the destructor left it. From that the callback must tell whether the object is in use, and lock it.
enum vmag_move_answer { VMAG_MOVE_YES, VMAG_MOVE_NO, VMAG_MOVE_LATER, VMAG_MOVE_DONT_NEED, VMAG_MOVE_DONT_KNOW };
typedef enum vmag_move_answer vmag_move_t(void *from, void *to, size_t size, void *argument);
void vmag_cache_set_move(vmag_cache_t *cache, vmag_move_t *move);

// Empties sparse slabs by moving, now, 256 at most; happens by itself when more than a quarter of the buffers of eight slabs or more is unused. Returns
// the number of objects moved.
size_t vmag_cache_consolidate(vmag_cache_t *cache);

const char *vmag_cache_name(const vmag_cache_t *cache);
size_t vmag_cache_object_size(const vmag_cache_t *cache);

// Figures. What other threads hold in their magazines is estimated while these run.
struct vmag_cache_stats {
	// Constant.
	size_t object_bytes; // as asked for
	size_t chunk_bytes;  // from one object of a slab to the next
	size_t align;
	size_t slab_bytes;
	size_t slab_objects; // in a slab
	size_t slab_colours; // different places of a slab's first object
	// Now.
	size_t slabs;
	size_t buffers;         // in all slabs
	size_t in_use;          // objects that the program has
	size_t cached;          // objects in magazines
	size_t full_magazines, empty_magazines; // in the depot
	size_t magazine_rounds; // of new magazines
	// So far.
	uint64_t depot_takes, depot_puts; // full magazines taken from the depot and left there
	uint64_t depot_contentions;       // times that somebody else had the depot's lock
	uint64_t slab_allocs, slab_frees; // buffers
	uint64_t slab_creates, slab_destroys;
	uint64_t alloc_failures, constructor_failures;
	uint64_t reaps, moves, magazine_resizes;
};

// `size`: sizeof *stats; later versions add fields at the end.
void vmag_cache_stats(vmag_cache_t *cache, struct vmag_cache_stats *stats, size_t size);

// Calls `function` for each object that the program has; exact when no other thread uses the cache meanwhile. No lock is held:
// it may free the object. 0: nothing was called: there is no memory for the list, objects are destructed all the time (it is called from a destructor or from move), or other
// threads have magazines of the cache and the kernel does not let them be read (a sandbox without process_vm_readv).
int vmag_cache_walk(vmag_cache_t *cache, void (*function)(void *argument, void *object), void *argument);

// Calls `function` for every cache of the process. It must not destroy that cache.
void vmag_cache_each(void (*function)(void *argument, vmag_cache_t *cache), void *argument);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
