// vmem arenas: sets of integers (addresses, ports, ids, file offsets) from which segments are allocated (2001, §4).
//
// The interface is that of Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), Figure 4.3; man 3 vmem explains it. An
// arena begins as a span [base, base + size), or empty; spans are added by the program or imported from a source on demand.
// Sizes are rounded up to multiples of the arena's quantum, and what is allocated is aligned to it.
//
//   vmag_vmem_t *ports = vmag_vmem_create("ports", (void *)32768, 28232, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
//   void *port = vmag_vmem_alloc(ports, 1, VMAG_VM_NOSLEEP | VMAG_VM_NEXTFIT);
//   vmag_vmem_free(ports, port, 1);
//
// All functions may be called from many threads, on the same arena too, and around fork. Addresses are integers in the
// clothes of pointers, as in the paper; 0 is none of them. Misuse (freeing what is not allocated, another size, constraints
// that contradict each other) is told in one line on stderr, and the process is aborted; at once, or, of what went through a
// quantum cache, when the cache gives it back to its slab.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_VMEM_H
#define VMAG_VMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function and a struct have one name
#endif

typedef struct vmag_vmem vmag_vmem_t;

// Import: takes `size` bytes (a multiple of both arenas' quanta) from `source`, aligned to the arena's quantum; NULL when there are
// none. Its flags always say NOSLEEP: it is the arena that waits, for its own integers or for more to import. Release gives
// back exactly what one import brought; NULL: imported spans are kept for ever. Both are called without locks.
// vmag_vmem_alloc and vmag_vmem_free are such functions.
typedef void *vmag_vmem_alloc_t(vmag_vmem_t *source, size_t size, int flags);
typedef void vmag_vmem_free_t(vmag_vmem_t *source, void *address, size_t size);

// Flags of an allocation: one of the first three, one policy, or-ed together. The values are libumem's.
enum {
	VMAG_VM_SLEEP = 0x0,   // wait until there is something to give; never NULL
	VMAG_VM_NOSLEEP = 0x1, // NULL rather than wait
	VMAG_VM_PANIC = 0x2,   // with NOSLEEP or without: abort rather than NULL, and rather than wait

	VMAG_VM_INSTANTFIT = 0x0, // a segment of the first list all of whose segments are large enough: constant time
	VMAG_VM_BESTFIT = 0x100,  // the smallest that is large enough (among the first 32 of a list, see man 3 vmem)
	VMAG_VM_FIRSTFIT = 0x200, // the first that is large enough, from the list of the request's own size on
	VMAG_VM_NEXTFIT = 0x400   // the next free one behind what was allocated last, around the arena
};

// Kinds of segments, for vmag_vmem_walk and vmag_vmem_size.
enum {
	VMAG_VMEM_ALLOC = 0x1,
	VMAG_VMEM_FREE = 0x2,
	VMAG_VMEM_SPAN = 0x10,            // walk: whole spans; size: all of them
	VMAG_VMEM_MAXFREE = 0x100,        // size: the largest free segment
	VMAG_VMEM_REENTRANT = -0x7fffffff - 1 // 0x80000000; walk: accepted; every walk is
};

// All arenas may be used at any time, also before main and in the child of a fork. VMAG_VM_SLEEP sleeps until another thread
// frees or adds enough, in this arena or one that it imports from; nothing else ends it.

// Creates an arena with the span [base, base + size), or with none when size is 0.
//   name        for reports; copied, cut to 63 characters
//   quantum     unit of currency, a power of two; base and size are multiples of it
//   import, release, source   where more comes from when the arena has too little; NULL: nowhere
//   qcache_max  requests up to this size go through quantum caches, one for each multiple of the quantum, at most 16; 0: none.
//               What the caches hold counts as allocated, in slabs of the next power of two above 3 × qcache_max, of 64 at least. None either
//               where one of them cannot be had: with 16,383 object caches in the process, without memory, or with very large quanta
//   flags       VMAG_VM_SLEEP or VMAG_VM_NOSLEEP, for the memory of the arena itself
// NULL with errno EINVAL when an argument is impossible (name NULL, quantum no power of two, span that holds 0, wraps around
// or is not aligned, release without import), with ENOMEM when there is no memory and flags say NOSLEEP.
vmag_vmem_t *vmag_vmem_create(const char *name, void *base, size_t size, size_t quantum, vmag_vmem_alloc_t *import,
			      vmag_vmem_free_t *release, vmag_vmem_t *source, size_t qcache_max, int flags);

// Destroys the arena, which nobody uses any more. What is still allocated is told in one line on stderr; imported spans
// that hold some of it are not released. NULL is ignored.
void vmag_vmem_destroy(vmag_vmem_t *arena);

// Adds the span [address, address + size), aligned to the quantum and apart from all others. Returns address; NULL only when
// flags say NOSLEEP and there is no memory. Added spans never become one with others.
void *vmag_vmem_add(vmag_vmem_t *arena, void *address, size_t size, int flags);

// Allocates a segment of `size` (not 0) bytes. NULL (errno ENOMEM) only with NOSLEEP. Where there is no room, caches on arenas of the same root
// give back what they hold and do not need: that calls their reclaim callbacks and destructors, so hold no lock that these take.
void *vmag_vmem_alloc(vmag_vmem_t *arena, size_t size, int flags);

// Frees what vmag_vmem_alloc returned, with the size that was asked for. Never fails, needs no memory, wakes who waits.
void vmag_vmem_free(vmag_vmem_t *arena, void *address, size_t size);

// Allocates a segment that begins `phase` behind a multiple of `align`, lies in [least, most), and does not cross a multiple of
// `nocross`; 0 (NULL) is no constraint. align and nocross are powers of two; phase < align; align, phase and nocross are
// multiples of the quantum. Fails only if there is no such place: with NULL, or by waiting, as vmag_vmem_alloc. May import,
// unless there are limits, which importing cannot meet. Unconstrained or merely aligned requests that find a segment of ample
// size take constant time; others may look at each free segment.
void *vmag_vmem_xalloc(vmag_vmem_t *arena, size_t size, size_t align, size_t phase, size_t nocross, void *least, void *most,
		       int flags);

// Frees what vmag_vmem_xalloc returned; neither of the two uses the quantum caches.
void vmag_vmem_xfree(vmag_vmem_t *arena, void *address, size_t size);

// 1 when [address, address + size) lies within one span, else 0.
int vmag_vmem_contains(vmag_vmem_t *arena, void *address, size_t size);

// Calls `function` for every segment (and span) of the kinds in the mask: span by span, by address or, in
// an arena that imports, the oldest first; in address order within each. No lock is held meanwhile: it may use the arena, even free the segment it
// was told, but it must return (no longjmp, exception or thread's end). What others change meanwhile may be seen or not. Sizes of what is allocated are those asked for. The slabs of an arena's
// quantum caches, and of object caches on it, are segments, too: they are theirs to free.
void vmag_vmem_walk(vmag_vmem_t *arena, int mask, void (*function)(void *argument, void *address, size_t size), void *argument);

// Bytes allocated (as asked for, before rounding), free, of all spans, or the largest free segment; the sum of what the
// mask names.
size_t vmag_vmem_size(vmag_vmem_t *arena, int mask);

const char *vmag_vmem_name(const vmag_vmem_t *arena);
vmag_vmem_t *vmag_vmem_source(const vmag_vmem_t *arena); // NULL: none

// What happened in an arena so far.
struct vmag_vmem_stats {
	size_t in_use_bytes;   // allocated, as asked for
	size_t total_bytes;    // of all spans
	size_t imported_bytes; // of them imported
	size_t segments, spans;
	uint64_t allocs, frees;
	uint64_t fails;          // requests that got NULL
	uint64_t waits;          // times that a request slept
	uint64_t imports, releases;
	uint64_t lookups;        // steps along hash chains beyond the first, by frees
	uint64_t searches;       // free segments that were looked at and not taken
	uint64_t populate_fails; // times that there was no memory for boundary tags
	size_t hash_buckets;
	size_t quantum, qcache_max;
};

// `size`: sizeof *stats; later versions add fields at the end.
void vmag_vmem_stats(vmag_vmem_t *arena, struct vmag_vmem_stats *stats, size_t size);

// Calls `function` for every arena of the process, the oldest first. It must not create or destroy arenas.
void vmag_vmem_each(void (*function)(void *argument, vmag_vmem_t *arena), void *argument);

// The arena of mapped pages, and the functions with which another arena imports from it (either may be NULL). NULL when
// there is no memory for it.
vmag_vmem_t *vmag_vmem_heap_arena(vmag_vmem_alloc_t **import, vmag_vmem_free_t **release);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
