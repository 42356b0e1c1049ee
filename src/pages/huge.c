// Which chunks are asked for as huge pages (docs/decisions/0005): those of heaps that will fill them, and of objects that will be
// filled.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/huge.h"

#include <stdatomic.h>

#include "conf/options.h"
#include "os/clock.h"
#include "os/pages.h"
#include "pages/dear.h"
#include "pages/page_map.h"
#include "util/bits.h"

enum {
	CHUNKS_A_LOOK = 64,                // chunks of objects until one is left to small pages again, to be looked at; first
	FIRST_LOOK = 31,                   // this one
	DENSE_BYTES = CHUNK_BYTES / 8 * 5, // resident in it: from there on huge pages make little more resident
	HUGE_LEAST = 4 * 1024 * 1024,      // active bytes from which on new chunks of a heap that grows fast will surely be filled
	HUGE_SURE = 40 * 1024 * 1024,      // and of any: what is not used yet of a chunk is beyond notice
	HUGE_OBJECT = 8 * 1024 * 1024,     // bytes of an object for which it is asked in small heaps as well
	FAST_US = 10000,                   // processor time for a chunk, of which 512 page faults would be a tenth
	COMPARED_PAGES = 16,               // small ones that are touched to see what they take, at most
	COMPARED_LEAST = 4,
};

static struct dear dear;

// Whether objects of a kind are written to all over, so that huge pages do not make more resident than small ones: as they were in the last chunk that
// was left to small pages. One in 64 is, to be looked at when the next is taken; and that of the large object after the first dense one, for these are few and
// differ more: until something of it is resident it says nothing. Threads that meet here may look twice or not.
static enum density density_of(struct looks *looks, uintptr_t start, bool large)
{
	uintptr_t before = atomic_exchange_explicit(&looks->at, 0, memory_order_relaxed);
	uint32_t chunk = atomic_fetch_add_explicit(&looks->chunks, 1, memory_order_relaxed) % CHUNKS_A_LOOK;
	size_t resident = before == 0 ? 0 : os_pages_resident((void *)before, CHUNK_BYTES);
	enum density known = atomic_load_explicit(&looks->density, memory_order_relaxed), density = known;

	if (large && known == DENSE && before != 0 && resident == 0 && chunk != FIRST_LOOK && chunk != FIRST_LOOK + 1) {
		atomic_store_explicit(&looks->at, before, memory_order_relaxed);
		return DENSE;
	}
	if (before != 0)
		density = resident >= DENSE_BYTES ? DENSE : SPARSE;
	atomic_store_explicit(&looks->density, density, memory_order_relaxed);
	if (density == DENSE && chunk != FIRST_LOOK && (known == DENSE || !large))
		return DENSE;
	atomic_store_explicit(&looks->at, start, memory_order_relaxed);
	return density == DENSE ? DENSITY_UNKNOWN : density;
}

// Whether the program is growing fast: the last two chunks that were begun, by whatever thread, each took less than FAST_US until the next was. One
// alone may be a table that is moved, say, of a program that grows slowly; such a one has time for page faults, and is better off without the unused part
// of a huge page. That an object begins a chunk which fills chunks by itself says nothing, unless others were allocated meanwhile.
static bool grows_fast(struct pages *pages, size_t size)
{
	static _Atomic uint64_t begun_at, took_before; // processor time, us
	size_t active = pages_active_bytes(pages), from = atomic_exchange_explicit(&pages->begun_with, active, memory_order_relaxed);
	uint64_t now = os_clock_process_us(), took = now - atomic_exchange_explicit(&begun_at, now, memory_order_relaxed);
	uint64_t before = atomic_exchange_explicit(&took_before, took, memory_order_relaxed);

	return took < FAST_US && before < FAST_US && (size < CHUNK_BYTES || active > from + size);
}

static bool is_small_object(size_t size, enum use use)
{
	return use == USE_OBJECT && size < CHUNK_BYTES;
}

// A run smaller than a chunk counts as filled, too: without it, a page unused in the first chunks would leave one chunk more to small pages.
static COLD bool heap_will_fill(struct pages *pages, size_t size, enum use use)
{
	size_t active = pages_active_bytes(pages), others = size < CHUNK_BYTES ? active : active - min_size(size, active);
	bool fast = grows_fast(pages, size) ||
		    (is_small_object(size, use) && atomic_load_explicit(&pages->objects.density, memory_order_relaxed) == DENSE);

	return active >= HUGE_SURE || (use >= USE_GROWN ? active >= HUGE_LEAST : others >= HUGE_LEAST && fast);
}

// Of a run that was just taken the first pages: they are zero, or of no value yet, and nobody else knows them. By processor time, for waiting for a
// processor says nothing, as far as a virtual machine knows of it.
static uint64_t time_to_touch(uintptr_t start, size_t pages)
{
	uint64_t before = os_clock_thread_ns();

	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(start + i * os_page_size()) = 0;
	return os_clock_thread_ns() - before;
}

// Of the chunk that a smaller run begins only the run's own pages are touched: what lies behind it may be another thread's. Of too few nothing is
// learned, and the next run is looked at.
static bool are_dear(uintptr_t start, uintptr_t end, bool touch)
{
	size_t chunks = max_size((end - start) / CHUNK_BYTES, 1), touched = min_size((end - start) / os_page_size(), COMPARED_PAGES);

	if (touch && dear_is_to_compare(&dear) && touched >= COMPARED_LEAST &&
	    dear_compare(&dear, time_to_touch(start, touched) * (CHUNK_BYTES / os_page_size()) / touched, chunks))
		return true;
	return dear_leaves(&dear, chunks, touch);
}

// The chunks that the run fills, or the one that it begins. The first shows what they take, where it may be touched, and of several the second what small
// pages take. False: nothing is asked for.
static bool ask(struct pages *pages, uintptr_t start, uintptr_t end, bool touch)
{
	size_t chunks = max_size((end - start) / CHUNK_BYTES, 1);
	bool tried;

	touch &= options.thp != THP_ALWAYS;
	if (options.thp != THP_ALWAYS && are_dear(start, end, touch))
		return false;
	atomic_store_explicit(&pages->has_huge, true, memory_order_relaxed);
	tried = touch && !dear_is_to_compare(&dear);
	if (tried) {
		os_pages_huge((void *)start, CHUNK_BYTES, true);
		dear_took(&dear, time_to_touch(start, 1));
		start += CHUNK_BYTES;
		chunks--;
	}
	if (chunks > 0 && tried && dear_is_to_compare(&dear) && are_dear(start, end, true))
		return true;
	if (chunks > 0)
		os_pages_huge((void *)start, chunks * CHUNK_BYTES, true);
	return true;
}

// Whatever the heap: it may be large by objects of which little is used. Only if the one before was filled: many a program's first is a table for the
// most that it may ever have to hold. In a heap that is not sure to fill chunks nothing of the last fifth, by which a size class may exceed what the
// program wanted. Nothing if the one before was not used where it begins: stacks are used from their ends; so of one that is to be looked at neither end.
static void ask_for_large_object(struct pages *pages, uintptr_t start, size_t size, enum use use)
{
	uintptr_t end = start + round_down(heap_will_fill(pages, size, use) ? size : size - size / 5, CHUNK_BYTES);
	enum density density = density_of(&pages->large_objects, start, true);
	bool dense_before = atomic_load_explicit(&pages->large_objects.density, memory_order_relaxed) == DENSE;

	if (density == DENSE)
		ask(pages, start, end, true); // it will be used where it begins
	else if (density == DENSITY_UNKNOWN && dense_before)
		ask(pages, start + CHUNK_BYTES, min_size(end, start + round_down(size - CHUNK_BYTES, CHUNK_BYTES)), false);
}

COLD void huge_ask(struct pages *pages, uintptr_t start, size_t size, enum use use)
{
	bool always = options.thp == THP_ALWAYS;

	if (start % CHUNK_BYTES != 0 || !extents_are_ours(&pages->extents))
		return;
	if (options.thp == THP_NEVER) {
		os_pages_small((void *)start, round_up(size, CHUNK_BYTES));
		return;
	}
	if (!always && use == USE_OBJECT && size >= HUGE_OBJECT) {
		ask_for_large_object(pages, start, size, use);
		return;
	}
	if (!always && !heap_will_fill(pages, size, use)) {
		if (use == USE_OBJECT)
			atomic_store_explicit(&pages->objects.at, start, memory_order_relaxed);
		// Where the system gives them unasked, each of a small program's chunks would be resident as a whole.
		if (size < CHUNK_BYTES && pages_active_bytes(pages) < HUGE_LEAST)
			os_pages_small((void *)start, CHUNK_BYTES);
		return;
	}
	if (!always && use == USE_OBJECT && density_of(&pages->objects, start, false) != DENSE)
		return;
	if (ask(pages, start, start + size, use != USE_EXTENDED) && size < CHUNK_BYTES) // the rest will be resident with the first touch
		vmem_soil_next(&pages->runs, start, CHUNK_BYTES - size);
}
