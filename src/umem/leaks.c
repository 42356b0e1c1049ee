// Leaks: marking from the roots, over a sorted table of places.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "umem/leaks.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "os/areas.h"
#include "os/pages.h"
#include "os/stack.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "pages/page_map.h"
#include "util/bits.h"

enum { PIECE_BYTES = 64 * 1024, RANGES_MOST = 2048, SLACK = 1024 };
enum { LARGE_AREA = 64 * 1024 * 1024 };

// A place that is not searched as a root. `buffer` −1: the library's own.
struct place {
	uintptr_t start, end;
	long buffer;
};

struct marking {
	struct leak_search *search;
	struct place *places; // by start
	size_t count;
	uint8_t *reached; // by buffer
	uint32_t *waiting; // reached buffers to be searched
	size_t waiting_count;
	char *piece; // what was read of the memory that is searched
	uintptr_t stack; // in use from here up
};

bool buffers_take(struct leak_search *search)
{
	search->capacity = guard_copy_all(NULL, 0) + SLACK;
	search->lost = 0;
	search->buffers = os_pages_map(round_up(search->capacity * sizeof *search->buffers, os_page_size()));
	if (search->buffers == NULL)
		return false;
	search->count = min_size(guard_copy_all(search->buffers, search->capacity), search->capacity);
	return true;
}

void buffers_release(struct leak_search *search)
{
	os_pages_unmap(search->buffers, round_up(search->capacity * sizeof *search->buffers, os_page_size()));
}

static void sift_down(struct place *places, size_t at, size_t count)
{
	for (size_t child; (child = at * 2 + 1) < count; at = child) {
		struct place held = places[at];

		if (child + 1 < count && places[child + 1].start > places[child].start)
			child++;
		if (held.start >= places[child].start)
			return;
		places[at] = places[child];
		places[child] = held;
	}
}

// A heap sort: it needs no memory.
static void sort_places(struct place *places, size_t count)
{
	for (size_t i = count / 2; i-- > 0;)
		sift_down(places, i, count);
	for (size_t i = count; i-- > 1;) {
		struct place last = places[i];

		places[i] = places[0];
		places[0] = last;
		sift_down(places, 0, i);
	}
}

// The number of places that begin at or before the address.
static size_t places_before(const struct marking *marking, uintptr_t address)
{
	size_t low = 0, high = marking->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (marking->places[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void reach(struct marking *marking, uintptr_t word)
{
	size_t before = places_before(marking, word);
	const struct place *place = before == 0 ? NULL : &marking->places[before - 1];
	const struct guarded *buffer;

	if (place == NULL || place->buffer < 0 || word >= place->end || marking->reached[place->buffer])
		return;
	buffer = &marking->search->buffers[place->buffer];
	if (buffer->state == GUARD_HELD || word < buffer->address || word - buffer->address > buffer->size)
		return;
	marking->reached[place->buffer] = 1;
	marking->waiting[marking->waiting_count++] = (uint32_t)place->buffer;
}

// Others may unmap what is being read: the kernel reads for us, where it is allowed to.
static size_t read_piece(struct marking *marking, uintptr_t start, size_t size)
{
	struct iovec to = { marking->piece, size }, from = { (void *)start, size };
	long got = os_system_call(SYS_process_vm_readv, os_process_number(), &to, 1UL, &from, 1UL, 0UL);

	if (got < 0 && (errno == ENOSYS || errno == EPERM)) {
		memcpy(marking->piece, (const void *)start, size);
		return size;
	}
	return got < 0 ? 0 : (size_t)got;
}

static void search_range(struct marking *marking, uintptr_t start, uintptr_t end)
{
	start = round_up(start, sizeof(uintptr_t));
	while (start < end) {
		size_t size = min_size(end - start, PIECE_BYTES), got = read_piece(marking, start, size);

		for (size_t i = 0; i + sizeof(uintptr_t) <= got; i += sizeof(uintptr_t))
			reach(marking, *(const uintptr_t *)(const void *)(marking->piece + i));
		start += got > 0 && got < size ? round_down(got, sizeof(uintptr_t)) + sizeof(uintptr_t) : size;
	}
}

// All of the range but the places in it.
static void search_root(struct marking *marking, uintptr_t start, uintptr_t end)
{
	size_t i = places_before(marking, start);

	for (i -= i > 0; start < end && i < marking->count && marking->places[i].start < end; i++) {
		const struct place *place = &marking->places[i];

		if (place->end <= start)
			continue;
		if (place->start > start)
			search_range(marking, start, place->start);
		start = place->end;
	}
	if (start < end)
		search_range(marking, start, end);
}

// Of large areas the resident pages alone; those that are swapped out are missed.
static void search_large(struct marking *marking, uintptr_t start, uintptr_t end)
{
	enum { BATCH = 512 };
	uint8_t states[BATCH];
	size_t page = os_page_size();
	int file = os_residency_open();

	for (uintptr_t at = start; at < end; at += BATCH * page) {
		size_t pages = min_size((end - at) / page, BATCH);

		if (file < 0 || !os_residency_read(file, at, states, pages))
			memset(states, PAGE_OURS, sizeof states);
		for (size_t i = 0; i < pages; i++)
			if (states[i] != PAGE_ABSENT)
				search_root(marking, at + i * page, at + (i + 1) * page);
	}
	if (file >= 0)
		os_residency_close(file);
}

static void search_area(struct marking *marking, const struct os_area *area)
{
	uintptr_t start = area->start;

	if (marking->stack >= area->start && marking->stack < area->end)
		start = marking->stack;
	if (area->end - start > LARGE_AREA)
		search_large(marking, start, area->end);
	else
		search_root(marking, start, area->end);
}

static bool search_roots(struct marking *marking)
{
	struct os_areas areas;
	struct os_area area;

	if (!os_areas_begin(&areas))
		return false;
	while (os_areas_next(&areas, &area))
		if (area.writable && area.resident + area.swapped > 0)
			search_area(marking, &area);
	os_areas_end(&areas);
	return true;
}

static void search_reached(struct marking *marking)
{
	while (marking->waiting_count > 0) {
		const struct guarded *buffer = &marking->search->buffers[marking->waiting[--marking->waiting_count]];

		if (!buffer->cache->untouched)
			search_range(marking, buffer->address, buffer->address + buffer->size);
	}
}

static void add_place(struct marking *marking, uintptr_t start, uintptr_t end, long buffer)
{
	marking->places[marking->count++] = (struct place){ start, end, buffer };
}

static void add_places(struct marking *marking, void *own, size_t own_bytes)
{
	static struct base_range ranges[RANGES_MOST];
	struct leak_search *search = marking->search;
	size_t count = min_size(base_ranges(ranges, RANGES_MOST), RANGES_MOST);

	for (size_t i = 0; i < search->count; i++)
		if (!search->buffers[i].cache->untouched)
			add_place(marking, search->buffers[i].block, search->buffers[i].block + max_size(search->buffers[i].block_bytes, 1),
				  (long)i);
	for (size_t i = 0; i < count; i++)
		add_place(marking, ranges[i].start, ranges[i].end, -1);
	add_place(marking, (uintptr_t)ranges, (uintptr_t)(ranges + RANGES_MOST), -1);
	add_place(marking, (uintptr_t)own, (uintptr_t)own + own_bytes, -1);
	add_place(marking, (uintptr_t)search->buffers, (uintptr_t)(search->buffers + search->capacity), -1);
	add_place(marking, (uintptr_t)page_map, (uintptr_t)(page_map + page_map_end), -1);
	sort_places(marking->places, marking->count);
}

// The lost ones to the front. Integers cannot be referred to: they are never lost.
static void gather_lost(struct marking *marking)
{
	struct leak_search *search = marking->search;

	for (size_t i = 0; i < search->count; i++) {
		struct guarded buffer = search->buffers[i];

		if (buffer.state != GUARD_LIVE || buffer.cache->untouched || marking->reached[i])
			continue;
		search->buffers[i] = search->buffers[search->lost];
		search->buffers[search->lost++] = buffer;
	}
}

int __attribute__((noinline)) leaks_find(struct leak_search *search)
{
	size_t places = search->count + RANGES_MOST + 4;
	size_t bytes = round_up(places * sizeof(struct place) + search->count * (sizeof(uint32_t) + 1) + PIECE_BYTES + 64,
				os_page_size());
	char *own = os_pages_map(bytes);
	struct marking marking = { .search = search, .places = (struct place *)(void *)own };
	bool found;

	if (own == NULL)
		return ENOMEM;
	marking.waiting = (uint32_t *)(void *)(marking.places + places);
	marking.piece = (char *)round_up((uintptr_t)(marking.waiting + search->count), sizeof(uintptr_t));
	marking.reached = (uint8_t *)(marking.piece + PIECE_BYTES);
	marking.stack = os_stack_here();
	add_places(&marking, own, bytes);
	found = search_roots(&marking);
	search_reached(&marking);
	gather_lost(&marking);
	os_pages_unmap(own, bytes);
	return found ? 0 : ENODATA;
}
