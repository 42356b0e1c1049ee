/* umem.h: libumem's interface, served by vmag. Programs written for libumem compile and run unchanged.
 *
 * What is the same, better and absent: docs/umem.md, umem_alloc(3). Link with -lvmag, or with -lumem against the alias. Sizes are bytes. All
 * functions may be called by any thread. Object caches are those of "Magazines and Vmem" (USENIX 2001), section 2.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef _UMEM_H
#define _UMEM_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/vmem.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an allocation does when there is no memory: it returns NULL, or asks the callback. */
#define UMEM_DEFAULT 0x0000
#define UMEM_NOFAIL 0x0100
#define UMEM_FLAGS 0xffff

/* Aligned for any type; multiples of 64 bytes at multiples of 64, whole pages at pages. Size 0 gives NULL, always. */
extern void *umem_alloc(size_t size, int flags);
extern void *umem_zalloc(size_t size, int flags);
/* `size` as it was asked for. (NULL, 0) does nothing. */
extern void umem_free(void *buffer, size_t size);

/* `align` is a power of two, or 0: 16; else the result is NULL. What one gives the other takes back. */
extern void *umem_alloc_align(size_t size, size_t align, int flags);
extern void umem_free_align(void *buffer, size_t size);

/* The callback of UMEM_NOFAIL says whether to try again or to exit(status); none: exit(255). */
typedef int umem_nofail_callback_t(void);
#define UMEM_CALLBACK_RETRY 0
#define UMEM_CALLBACK_EXIT(status) (0x100 | ((status) & 0xFF))
extern void umem_nofail_callback(umem_nofail_callback_t *callback);

/* Object caches. */
#define UMC_NOTOUCH 0x00010000    /* the buffers are no memory: they are never written */
#define UMC_NODEBUG 0x00020000    /* no debugging whatever UMEM_DEBUG says */
#define UMC_NOMAGAZINE 0x00040000 /* slabs alone */
#define UMC_NOHASH 0x00080000     /* no structures outside the slab */

typedef struct umem_cache umem_cache_t;
typedef int umem_constructor_t(void *object, void *argument, int flags); /* 0: constructed */
typedef void umem_destructor_t(void *object, void *argument);
typedef void umem_reclaim_t(void *argument);

/*
 * Objects of `size` bytes at multiples of `align` (0: 8, or 16 from 16 bytes on), kept constructed between uses. Slabs come from `source`, NULL: the
 * heap. The functions may be NULL and get `argument`; the name is copied.
 * NULL and errno: EINVAL an argument, ENOMEM sizes that overflow, EAGAIN no memory, or 16,383 object caches already.
 */
extern umem_cache_t *umem_cache_create(char *name, size_t size, size_t align, umem_constructor_t *constructor,
				       umem_destructor_t *destructor, umem_reclaim_t *reclaim, void *argument,
				       vmem_t *source, int flags);
/* Destructs what is cached, and ends the cache, which nobody uses any more. Objects that were not freed are told on stderr. */
extern void umem_cache_destroy(umem_cache_t *cache);
/* A constructed object, the caller's until it is freed in that state. No memory: NULL, or what UMEM_NOFAIL says. NULL may be freed. */
extern void *umem_cache_alloc(umem_cache_t *cache, int flags);
extern void umem_cache_free(umem_cache_t *cache, void *object);

/* Gives back what caches do not need, at most once in UMEM_OPTIONS=reap_interval seconds (10). */
extern void umem_reap(void);

/* While debugging: about one allocation in `mean` fails from now on; 1: all, 0: none. */
extern void umem_setmtbf(uint32_t mean);

#ifdef __cplusplus
}
#endif

#endif
