// The data segment as a source of chunks: sbrk, in pieces aligned to chunks, beside whoever else extends it.
//
//   [ the program's data │ others' ][ chunk ][ others' ][ gap ][ chunk ][ chunk ] ◄─ break
//
// Each piece is what one call of sbrk returned, so what others take in between is never ours. A piece is asked for so that it
// ends behind whole chunks; where others were faster and it does not begin where it should, it is left unused and asked for again. The break
// is never lowered: somebody may be above us. Unused pages are purged, as everywhere.
// When the segment can grow no more (RLIMIT_DATA, a mapping in its way), or lies where the page map cannot be (RLIMIT_AS leaves no
// room for a map of all addresses), chunks are mapped as usual. Where there is just no memory for the map's words now, only this time: the piece
// is kept for the next.
//
// The C library's sbrk takes no lock, so ours is held across it (docs/decisions/0030); a program that calls sbrk in another
// thread at the same moment races with us as it would with any other.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdatomic.h>
#include <stdint.h>

#include "conf/umem_options.h"
#include "guard/report.h"
#include "jemalloc/jemalloc.h"
#include "os/backing.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "pages/chunks.h"
#include "pages/extents.h"
#include "pages/page_map.h"
#include "pages/sources.h"
#include "util/bits.h"

enum { TRIES = 8 };

static _Atomic bool beyond; // the page map cannot ever be where the segment is
static _Atomic bool told;   // that it was not there once

static struct mutex lock = MUTEX_INIT(RANK_BREAK);

// What is left of the last piece, whole chunks; under the lock.
static struct {
	uintptr_t start, end;
} rest;

// Under the lock. False: the segment cannot grow.
static bool grow(size_t size, size_t align)
{
	for (int i = 0; i < TRIES; i++) {
		uintptr_t old = (uintptr_t)os_backing_extend_break(0);
		uintptr_t start = old == rest.end && rest.start % align == 0 ? rest.start : round_up(old, align);
		size_t more = round_up(max_size(size, umem_options.sbrk_least), CHUNK_BYTES);

		if (old == 0 || start > UINTPTR_MAX - more)
			return false;
		uintptr_t got = (uintptr_t)os_backing_extend_break(start + more - old);

		if (got == 0)
			return false;
		if (got == old) {
			rest.start = start;
			rest.end = start + more;
			return true;
		}
	}
	return false;
}

// False: `*start` is 0 where the segment has none, or where the piece is that the page map does not reach. Nobody takes what lies
// behind it meanwhile.
static bool take(size_t size, size_t align, uintptr_t *start)
{
	bool covered = false;

	*start = 0;
	mutex_lock(&lock);
	if ((rest.end - rest.start >= size && rest.start % align == 0) || grow(size, align)) {
		*start = rest.start;
		covered = page_map_cover(rest.start, size);
		rest.start += covered ? size : 0;
	}
	mutex_unlock(&lock);
	return covered;
}

static void tell_uncovered(uintptr_t start)
{
	bool never = !page_map_may_reach_all();

	if (never ? atomic_exchange(&beyond, true) : atomic_exchange(&told, true))
		return;
	guard_warn("heap_source:sbrk", (void *)start, never ? "no address space for a page map that reaches here: memory is mapped" :
							      "no room for a page map that reaches here for the moment: memory is mapped until there is", 0);
}

// 0: the segment has none.
static uintptr_t take_covered(size_t size, size_t align)
{
	uintptr_t start;

	if (atomic_load(&beyond))
		return 0;
	if (take(size, align, &start))
		return start;
	if (start != 0)
		tell_uncovered(start);
	return 0;
}

static bool is_of_region(const void *start)
{
	return (uintptr_t)start - page_map_first_chunk() < page_map_chunk_bytes();
}

static void *break_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena)
{
	uintptr_t start = new_addr == NULL ? take_covered(size, max_size(align, CHUNK_BYTES)) : 0;

	(void)hooks, (void)arena;
	if (new_addr != NULL)
		return NULL;
	if (start != 0 && umem_options.sbrk_page > os_page_size())
		os_pages_huge((void *)start, size, true);
	*zero = *commit = true;
	return (void *)(start != 0 ? start : chunks_import(size, align));
}

// True: it is kept, to be used again.
static bool break_dalloc(extent_hooks_t *hooks, void *start, size_t size, bool committed, unsigned arena)
{
	return !is_of_region(start) || extents_default.dalloc(hooks, start, size, committed, arena);
}

// A byte is taken to see whether the C library can (musl's cannot).
extent_hooks_t *source_of_break(void)
{
	static extent_hooks_t hooks;
	bool can;

	mutex_lock(&lock);
	can = os_backing_extend_break(1) != NULL;
	mutex_unlock(&lock);
	if (!can)
		return NULL;
	hooks.alloc = break_alloc;
	hooks.dalloc = break_dalloc;
	hooks.purge_forced = extents_default.purge_forced;
	hooks.split = extents_default.split; // of kept pieces: those of the region are never kept
	hooks.merge = extents_default.merge;
	return &hooks;
}

void source_break_fork_prepare(void)
{
	mutex_fork_lock(&lock);
}

void source_break_fork_done(void)
{
	mutex_fork_unlock(&lock);
}
