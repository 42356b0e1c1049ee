/* sys/vmem.h: the public part of libumem's vmem interface, served by vmag ("Magazines and Vmem", USENIX 2001, Figure 4.3).
 *
 * An arena is a set of integers, often addresses; segments of it are allocated in constant time. Sizes are in the arena's integers, rounded up to
 * its quantum. All functions may be called by any thread. What is misuse ends the process with a line on stderr. More: docs/umem.md, vmem(3).
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef _SYS_VMEM_H
#define _SYS_VMEM_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Of each allocation: what to do when there is nothing (SLEEP: wait; NOSLEEP: NULL; PANIC: abort), and the policy. The others are accepted and change
 * nothing; but those of KMFLAGS are handed to the import function with what is asked for past the quantum caches.
 */
#define VM_SLEEP 0x00000000
#define VM_NOSLEEP 0x00000001
#define VM_PANIC 0x00000002
#define VM_PUSHPAGE 0x00000004
#define VM_KMFLAGS 0x000000ff

#define VM_INSTANTFIT 0x00000000 /* the 2001 paper's name for the default */
#define VM_BESTFIT 0x00000100
#define VM_FIRSTFIT 0x00000200
#define VM_NEXTFIT 0x00000400
#define VM_MEMLOAD 0x00000800
#define VM_NORELOC 0x00001000
#define VM_ABORT 0x00002000
#define VM_FLAGS 0x0000ffff

/* Of an arena. NO_QCACHE: `qcache_max` counts as 0; the others are accepted and change nothing. */
#define VMC_POPULATOR 0x00010000
#define VMC_NO_QCACHE 0x00020000
#define VMC_IDENTIFIER 0x00040000
#define VMC_FLAGS 0xffff0000

/* Kinds of segments, for vmem_size and vmem_walk. */
#define VMEM_ALLOC 0x01
#define VMEM_FREE 0x02
#define VMEM_SPAN 0x10
#define VMEM_ROTOR 0x20
#define VMEM_WALKER 0x40
#define VMEM_REENTRANT 0x80000000 /* the walker's function may call vmem */

typedef struct vmem vmem_t;
typedef void *(vmem_alloc_t)(vmem_t *source, size_t size, int flags);
typedef void(vmem_free_t)(vmem_t *source, void *start, size_t size);

/*
 * An arena of [base, base + size), of none at first when `size` is 0, in multiples of `quantum`, a power of two. What is missing `import` gets from `source`,
 * and `release` gives it back; all may be NULL. Requests up to `qcache_max` go through object caches (2001, section 4.4.4). The name is copied.
 * NULL and errno: EINVAL an argument, ENOMEM with VM_NOSLEEP.
 */
extern vmem_t *vmem_create(const char *name, void *base, size_t size, size_t quantum, vmem_alloc_t *import,
			   vmem_free_t *release, vmem_t *source, size_t qcache_max, int flags);
/* What is still allocated is told on stderr. */
extern void vmem_destroy(vmem_t *arena);
/* A segment, NULL only with VM_NOSLEEP. It is freed with the size that was asked for. */
extern void *vmem_alloc(vmem_t *arena, size_t size, int flags);
extern void vmem_free(vmem_t *arena, void *start, size_t size);
/* One that begins `phase` behind a multiple of `align`, within [min, max), and crosses no multiple of `nocross`; 0, NULL: no constraint. Freed by vmem_xfree. */
extern void *vmem_xalloc(vmem_t *arena, size_t size, size_t align, size_t phase, size_t nocross, void *min, void *max,
			 int flags);
extern void vmem_xfree(vmem_t *arena, void *start, size_t size);
/* Adds a span. Returns `start`, NULL: no memory, only with VM_NOSLEEP. */
extern void *vmem_add(vmem_t *arena, void *start, size_t size, int flags);
/* 1 when the range lies within one span, else 0. */
extern int vmem_contains(vmem_t *arena, void *start, size_t size);
/* Calls `function` for each segment of these kinds; no lock is held meanwhile. */
extern void vmem_walk(vmem_t *arena, int kinds, void (*function)(void *argument, void *start, size_t size),
		      void *argument);
/* The sum of the segments of these kinds. */
extern size_t vmem_size(vmem_t *arena, int kinds);

/* The arena that memory comes from, and the functions that allocate and free in it; either may be NULL. NULL: no memory. */
extern vmem_t *vmem_heap_arena(vmem_alloc_t **import, vmem_free_t **release);

#ifdef __cplusplus
}
#endif

#endif
