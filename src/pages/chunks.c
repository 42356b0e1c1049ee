// Chunks: addresses of the heap region, mapped when imported and unmapped when released.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/chunks.h"

#include <errno.h>
#include <stdatomic.h>

#include "os/map_count.h"
#include "os/pages.h"
#include "pages/page_map.h"

enum {
	LOOK_BACK = 1 << 16, // chunks: of a larger extent that is released in parts the addresses are lost
	SIFTS_MOST = 1024,   // places tried, so that one of which much is taken costs a millisecond or two
};

struct vmem heap_arena;

static _Atomic size_t mapped_bytes;

bool chunks_init(void)
{
	vmem_init(&heap_arena, "heap", LG_CHUNK, VMEM_BESTFIT, RANK_HEAP);
	return vmem_span_add(&heap_arena, page_map_first_chunk(), page_map_chunk_bytes());
}

// Where the process has all mappings that it may have, those of huge and of small pages become one.
static bool merge_mappings(void)
{
	uintptr_t first = page_map_first_chunk();

	if (!os_maps_are_used_up())
		return false;
	os_pages_join((void *)first, page_map_last_chunk_end() - first);
	return true;
}

// Address space first: without any it looks as if the process had all its mappings.
static bool room_is_made(void)
{
	bool given = page_map_give_back();

	return merge_mappings() || given;
}

// The map comes last: what is too large must not take address space for its words.
static bool map_chunks(uintptr_t start, size_t size)
{
	if (!os_pages_map_at((void *)start, size))
		return false;
	if (page_map_commit(start, size))
		return true;
	errno = os_pages_unmap((void *)start, size) ? ENOMEM : EBUSY;
	return false;
}

static bool is_vacant(uintptr_t start, size_t size)
{
	if (!os_pages_reserve_at((void *)start, size))
		return errno != EEXIST; // a process without room for a try is not a stranger
	return os_pages_unmap((void *)start, size);
}

// Of a segment in which somebody else has mapped something only the chunks where that lies stay allocated, so that they are not tried again: halves in which
// nothing lies are freed.
static void sift(uintptr_t start, size_t size, unsigned *sifts)
{
	while (size > CHUNK_BYTES && (*sifts)++ < SIFTS_MOST) {
		size_t half = round_down(size / 2, CHUNK_BYTES);

		if (!vmem_cut(&heap_arena, start, half))
			return;
		if (is_vacant(start, half)) { // then the other is not, or there is no room to tell, and the next request looks again
			vmem_segment_free(&heap_arena, start, half, VMEM_CLEAN);
			start += half;
			size -= half;
			continue;
		}
		if (is_vacant(start + half, size - half))
			vmem_segment_free(&heap_arena, start + half, size - half, VMEM_CLEAN);
		else
			sift(start + half, size - half, sifts);
		size = half;
	}
}

static COLD void keep_taken(uintptr_t start, size_t size)
{
	unsigned sifts = 0;

	sift(start, size, &sifts);
}

static uintptr_t import(size_t size, size_t align)
{
	struct vmem_constraint aligned = { .align = align };

	for (bool retried = false;;) {
		uintptr_t start = align <= CHUNK_BYTES ? vmem_segment_alloc(&heap_arena, size).start :
							 vmem_segment_xalloc(&heap_arena, size, &aligned, heap_arena.policy, 0).start;

		if (start == 0)
			return 0;
		if (map_chunks(start, size)) {
			atomic_fetch_add_explicit(&mapped_bytes, size, memory_order_relaxed);
			return start;
		}
		if (errno == EEXIST) {
			keep_taken(start, size);
			continue;
		}
		if (errno == EBUSY) // what could not be unmapped again is there
			return 0;
		bool again = !retried && errno == ENOMEM && room_is_made();

		vmem_segment_free(&heap_arena, start, size, VMEM_CLEAN);
		if (!again)
			return 0;
		retried = true;
	}
}

// What is refused on the way is not told.
uintptr_t chunks_import(size_t size, size_t align)
{
	int saved = errno;
	uintptr_t start = import(size, align);

	errno = saved;
	return start;
}

// Sees to it that no segment lies on both sides. False: no memory.
static bool cut_at(uintptr_t place)
{
	uintptr_t start = place, first = page_map_first_chunk();
	size_t size = 0;

	if (place > page_map_last_chunk_end())
		return true;
	for (unsigned i = 0; size == 0 && i < LOOK_BACK && start > first; i++)
		size = vmem_segment_size(&heap_arena, start -= CHUNK_BYTES);
	return size <= place - start || vmem_cut(&heap_arena, start, place - start);
}

// Extents may have been cut and put together since they were imported. What hooks gave, which are the arena's no more, is nobody's segment.
bool chunks_release(uintptr_t start, size_t size)
{
	uintptr_t end = start + size;
	size_t piece = vmem_segment_size(&heap_arena, start);

	if ((piece != size && !(cut_at(start) && cut_at(end))) || !os_pages_unmap((void *)start, size))
		return false;
	for (; start < end && (piece = vmem_segment_size(&heap_arena, start)) - 1 < end - start; start += piece) {
		vmem_segment_free(&heap_arena, start, piece, VMEM_CLEAN);
		atomic_fetch_sub_explicit(&mapped_bytes, piece, memory_order_relaxed);
	}
	return true;
}

void chunks_give_up(uintptr_t start, size_t size, bool taken)
{
	if (!taken)
		vmem_segment_free(&heap_arena, start, size, VMEM_CLEAN);
	atomic_fetch_sub_explicit(&mapped_bytes, size, memory_order_relaxed);
}

size_t chunks_mapped_bytes(void)
{
	return atomic_load_explicit(&mapped_bytes, memory_order_relaxed);
}
