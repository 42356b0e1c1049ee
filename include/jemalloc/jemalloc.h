/* The interface of jemalloc 5.3, as vmag offers it: include it, link with -lvmag, and all is as it was.
 *
 * docs/jemalloc.md says what is the same, better or absent. Names need no prefix; JEMALLOC_MANGLE and JEMALLOC_NO_RENAME are
 * without effect, for nothing is renamed. With JEMALLOC_NO_DEMANGLE the names that begin with je_ stand for the functions, too.
 * SPDX-License-Identifier: BSD-2-Clause
 */
#ifndef JEMALLOC_H
#define JEMALLOC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The jemalloc that this stands for. The text is what mallctl("version") says. */
#define JEMALLOC_VERSION "5.3.0-0-gvmag"
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 0
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "vmag"
#define JEMALLOC_VERSION_GID_IDENT vmag

/* What configured jemalloc headers define and programs ask about. */
#define JEMALLOC_HAVE_ATTR
#define JEMALLOC_OVERRIDE_MEMALIGN
#define JEMALLOC_OVERRIDE_VALLOC
#define JEMALLOC_USABLE_SIZE_CONST
#define JEMALLOC_USE_CXX_THROW
#define LG_SIZEOF_PTR 3

/* Flags of the *x functions: 6 bits of alignment, zero, 12 bits of cache, 12 bits of arena. */
#define MALLOCX_LG_ALIGN(la) ((int)(la))
#define MALLOCX_ALIGN(a) \
	((int)(((size_t)(a) < (size_t)INT_MAX) ? ffs((int)(a)) - 1 : ffs((int)(((size_t)(a)) >> 32)) + 31))
#define MALLOCX_ZERO ((int)0x40)
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(a) ((int)((((unsigned)(a)) + 1) << 20))

/* Arena numbers of arena.<i>.* and stats.arenas.<i>.*: all arenas; those that were destroyed. */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

#define JEMALLOC_ATTR(s) __attribute__((s))
#define JEMALLOC_ALIGNED(s) JEMALLOC_ATTR(aligned(s))
#define JEMALLOC_ALLOC_SIZE(s) JEMALLOC_ATTR(alloc_size(s))
#define JEMALLOC_ALLOC_SIZE2(s1, s2) JEMALLOC_ATTR(alloc_size(s1, s2))
#define JEMALLOC_EXPORT JEMALLOC_ATTR(visibility("default"))
#define JEMALLOC_FORMAT_ARG(i) JEMALLOC_ATTR(__format_arg__(i))
#define JEMALLOC_FORMAT_PRINTF(s, i) JEMALLOC_ATTR(format(printf, s, i))
#define JEMALLOC_NOINLINE JEMALLOC_ATTR(noinline)
#define JEMALLOC_NOTHROW JEMALLOC_ATTR(nothrow)
#define JEMALLOC_SYS_NOTHROW JEMALLOC_NOTHROW
#define JEMALLOC_SECTION(s) JEMALLOC_ATTR(section(s))
#define JEMALLOC_RESTRICT_RETURN
#define JEMALLOC_ALLOCATOR
#define JEMALLOC_COLD JEMALLOC_ATTR(cold)
#ifdef __cplusplus
#define JEMALLOC_CXX_THROW throw()
#else
#define JEMALLOC_CXX_THROW
#endif

/*
 * The C family. Here, because programs include this header in place of malloc.h.
 */
JEMALLOC_EXPORT void *malloc(size_t size) JEMALLOC_CXX_THROW JEMALLOC_ATTR(malloc) JEMALLOC_ALLOC_SIZE(1);
JEMALLOC_EXPORT void *calloc(size_t count, size_t size) JEMALLOC_CXX_THROW JEMALLOC_ATTR(malloc) JEMALLOC_ALLOC_SIZE2(1, 2);
JEMALLOC_EXPORT int posix_memalign(void **result, size_t alignment, size_t size) JEMALLOC_CXX_THROW JEMALLOC_ATTR(nonnull(1));
JEMALLOC_EXPORT void *aligned_alloc(size_t alignment, size_t size) JEMALLOC_CXX_THROW JEMALLOC_ATTR(malloc) JEMALLOC_ALLOC_SIZE(2);
JEMALLOC_EXPORT void *realloc(void *object, size_t size) JEMALLOC_CXX_THROW JEMALLOC_ALLOC_SIZE(2);
JEMALLOC_EXPORT void free(void *object) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *memalign(size_t alignment, size_t size) JEMALLOC_CXX_THROW JEMALLOC_ATTR(malloc);
JEMALLOC_EXPORT void *valloc(size_t size) JEMALLOC_CXX_THROW JEMALLOC_ATTR(malloc);
JEMALLOC_EXPORT size_t malloc_usable_size(void *object) JEMALLOC_CXX_THROW;

/*
 * Bytes, alignment and zeroes as the flags say, of the arena and through the cache that they name; a flag that names none ends the process with a report.
 * Size 0 is taken as 1. NULL, errno ENOMEM: no memory; rallocx then leaves the object as it was.
 */
JEMALLOC_EXPORT void *mallocx(size_t size, int flags) JEMALLOC_NOTHROW JEMALLOC_ATTR(malloc) JEMALLOC_ALLOC_SIZE(1);
JEMALLOC_EXPORT void *rallocx(void *object, size_t size, int flags) JEMALLOC_NOTHROW JEMALLOC_ALLOC_SIZE(2);
/* In place only, to size + extra or as near as it goes; returns the bytes that can be used now. */
JEMALLOC_EXPORT size_t xallocx(void *object, size_t size, size_t extra, int flags) JEMALLOC_NOTHROW;
/* The bytes that can be used, of an object; of one that mallocx would return where it has room for that, 0: more than PTRDIFF_MAX. */
JEMALLOC_EXPORT size_t sallocx(const void *object, int flags) JEMALLOC_NOTHROW JEMALLOC_ATTR(pure);
JEMALLOC_EXPORT size_t nallocx(size_t size, int flags) JEMALLOC_NOTHROW JEMALLOC_ATTR(pure);
/* `size`: from what was asked for to what can be used; another one ends the process with a report. */
JEMALLOC_EXPORT void dallocx(void *object, int flags) JEMALLOC_NOTHROW;
JEMALLOC_EXPORT void sdallocx(void *object, size_t size, int flags) JEMALLOC_NOTHROW;

/* Controls (vmag-controls(7)) and the report. 0, or ENOENT, EPERM, EINVAL, EFAULT, EAGAIN as jemalloc has it; errno is kept. */
JEMALLOC_EXPORT int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen) JEMALLOC_NOTHROW;
JEMALLOC_EXPORT int mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp) JEMALLOC_NOTHROW;
JEMALLOC_EXPORT int mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
				 size_t newlen) JEMALLOC_NOTHROW;
JEMALLOC_EXPORT void malloc_stats_print(void (*write)(void *, const char *), void *argument, const char *options) JEMALLOC_NOTHROW;

/* Defined by the program: options (vmag-options(5)), and some more that are read last. */
extern JEMALLOC_EXPORT const char *malloc_conf;
extern JEMALLOC_EXPORT const char *malloc_conf_2_conf_harder;

/* Set by the program: where malloc_stats_print writes that is given no function; NULL: to the standard error. */
extern JEMALLOC_EXPORT void (*malloc_message)(void *argument, const char *text);

/*
 * Extent hooks: where an arena's memory comes from. Each gets the hooks themselves first and the arena's number last; true
 * means: refused or failed. All but alloc may be NULL, which is the same as refusing.
 *
 * An extent here is one or more chunks of 2 MiB: `alloc` is asked for sizes and alignments of that kind and may return any
 * address of the process with that alignment. What `alloc` gave is given back whole to `dalloc`; if that refuses, it is
 * kept for the arena's next chunks, whole, or in pieces as `split` and `merge` allow, and goes to `destroy` with the arena.
 */
typedef struct extent_hooks_s extent_hooks_t;
typedef void *(extent_alloc_t)(extent_hooks_t *, void *new_addr, size_t size, size_t alignment, bool *zero, bool *commit,
			       unsigned arena);
typedef bool(extent_dalloc_t)(extent_hooks_t *, void *addr, size_t size, bool committed, unsigned arena);
typedef void(extent_destroy_t)(extent_hooks_t *, void *addr, size_t size, bool committed, unsigned arena);
typedef bool(extent_commit_t)(extent_hooks_t *, void *addr, size_t size, size_t offset, size_t length, unsigned arena);
typedef bool(extent_decommit_t)(extent_hooks_t *, void *addr, size_t size, size_t offset, size_t length, unsigned arena);
typedef bool(extent_purge_t)(extent_hooks_t *, void *addr, size_t size, size_t offset, size_t length, unsigned arena);
typedef bool(extent_split_t)(extent_hooks_t *, void *addr, size_t size, size_t size_a, size_t size_b, bool committed,
			     unsigned arena);
typedef bool(extent_merge_t)(extent_hooks_t *, void *addr_a, size_t size_a, void *addr_b, size_t size_b, bool committed,
			     unsigned arena);

struct extent_hooks_s {
	extent_alloc_t *alloc;
	extent_dalloc_t *dalloc;
	extent_destroy_t *destroy;
	extent_commit_t *commit;
	extent_decommit_t *decommit;
	extent_purge_t *purge_lazy;
	extent_purge_t *purge_forced;
	extent_split_t *split;
	extent_merge_t *merge;
};

#ifdef JEMALLOC_NO_DEMANGLE
#define je_malloc_conf malloc_conf
#define je_malloc_conf_2_conf_harder malloc_conf_2_conf_harder
#define je_malloc_message malloc_message
#define je_malloc malloc
#define je_calloc calloc
#define je_posix_memalign posix_memalign
#define je_aligned_alloc aligned_alloc
#define je_realloc realloc
#define je_free free
#define je_mallocx mallocx
#define je_rallocx rallocx
#define je_xallocx xallocx
#define je_sallocx sallocx
#define je_dallocx dallocx
#define je_sdallocx sdallocx
#define je_nallocx nallocx
#define je_mallctl mallctl
#define je_mallctlnametomib mallctlnametomib
#define je_mallctlbymib mallctlbymib
#define je_malloc_stats_print malloc_stats_print
#define je_malloc_usable_size malloc_usable_size
#define je_memalign memalign
#define je_valloc valloc
#endif

#ifdef __cplusplus
}
#endif
#endif
