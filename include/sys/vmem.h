/* sys/vmem.h: the public part of libumem's vmem interface, served by vmag.
 *
 * An arena is a set of integers, often addresses; segments of it are allocated in constant time. docs/umem.md.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef _SYS_VMEM_H
#define _SYS_VMEM_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of each allocation: what to do when there is nothing, and the policy. */
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

/* Of an arena. */
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

extern vmem_t *vmem_create(const char *name, void *base, size_t size, size_t quantum, vmem_alloc_t *import,
			   vmem_free_t *release, vmem_t *source, size_t qcache_max, int flags);
extern void vmem_destroy(vmem_t *arena);
extern void *vmem_alloc(vmem_t *arena, size_t size, int flags);
extern void vmem_free(vmem_t *arena, void *start, size_t size);
extern void *vmem_xalloc(vmem_t *arena, size_t size, size_t align, size_t phase, size_t nocross, void *min, void *max,
			 int flags);
extern void vmem_xfree(vmem_t *arena, void *start, size_t size);
extern void *vmem_add(vmem_t *arena, void *start, size_t size, int flags);
extern int vmem_contains(vmem_t *arena, void *start, size_t size);
extern void vmem_walk(vmem_t *arena, int kinds, void (*function)(void *argument, void *start, size_t size),
		      void *argument);
extern size_t vmem_size(vmem_t *arena, int kinds);

/* The arena that memory comes from, and the functions that allocate and free in it. */
extern vmem_t *vmem_heap_arena(vmem_alloc_t **import, vmem_free_t **release);

#ifdef __cplusplus
}
#endif

#endif
