/* The *allocm functions that jemalloc had from 2011 to 2013, before mallocx: each says whether it did what was asked.
 * SPDX-License-Identifier: BSD-2-Clause
 */
#ifndef VMAG_ALLOCM_H
#define VMAG_ALLOCM_H

#include <limits.h>
#include <stddef.h>
#include <strings.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALLOCM_LG_ALIGN(la) ((int)(la))
#define ALLOCM_ALIGN(a) \
	((int)(((size_t)(a) < (size_t)INT_MAX) ? ffs((int)(a)) - 1 : ffs((int)(((size_t)(a)) >> 32)) + 31))
#define ALLOCM_ZERO ((int)0x40)
#define ALLOCM_NO_MOVE ((int)0x80)
#define ALLOCM_ARENA(a) ((int)(((unsigned)(a) + 1) << 8))

#define ALLOCM_SUCCESS 0
#define ALLOCM_ERR_OOM 1
#define ALLOCM_ERR_NOT_MOVED 2

/*
 * Sizes are bytes. `*usable`, where `usable` is not NULL, becomes those that can be used. The result is ALLOCM_SUCCESS, or why not; on failure all is as
 * before. An object is the caller's until dallocm, free or dallocx.
 */
int allocm(void **object, size_t *usable, size_t size, int flags); /* ALLOCM_ERR_OOM */

/* To `size + extra` bytes if that can be done in place, else to at least `size`; with ALLOCM_NO_MOVE in place or not at all (ALLOCM_ERR_NOT_MOVED). */
int rallocm(void **object, size_t *usable, size_t size, size_t extra, int flags);

int sallocm(const void *object, size_t *usable, int flags); /* always succeeds */
int dallocm(void *object, int flags);                       /* likewise */

/* What allocm with that size and these flags could be used for where it has room, allocating nothing; ALLOCM_ERR_OOM: more than PTRDIFF_MAX. */
int nallocm(size_t *usable, size_t size, int flags);

#ifdef __cplusplus
}
#endif
#endif
