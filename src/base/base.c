// Memory for our own metadata: blocks cut from the front, and one list of free objects for each multiple of a cache line. Where the system
// has no block, free objects of other sizes are joined and cut.
// SPDX-License-Identifier: BSD-2-Clause
#include "base/base.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "conf/options.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "util/assert.h"
#include "util/bits.h"

// Freed objects that make it worth to sort all: one in so many of what lay apart the last time.
enum { JOINED_ANEW = 16 };

enum { BLOCK_BYTES = 64 * 1024, LG_GROWTH_MOST = 4, LISTS = BASE_LARGEST / CACHE_LINE + 1, RANGES_FIRST = 16, RANGES_MOST = 2048 };

// Where there is much metadata, most of it boundary tags, blocks are large and of huge pages: whoever goes from tag to tag finds fewer
// pages missing in the processor's tables.
enum { MUCH_BYTES = 32 << 20, LARGE_BLOCK_BYTES = 8 << 20 };

struct free_object {
	struct free_object *next;
	size_t size; // while free objects are joined; else not defined
};

static struct {
	struct mutex lock;
	// Under lock.
	char *at;  // rest of the newest block
	char *end;
	unsigned lg_growth; // of the next block: it grows with what is in use, so that blocks stay few
	struct free_object *free[LISTS];
	uint32_t freed, joined; // objects since free ones were joined; what they came to then
	size_t range_count; // of what was mapped; more than RANGES_MOST are not noted
	struct base_range first_ranges[RANGES_FIRST];
	// Atomic, for statistics.
	_Atomic size_t mapped;
} base = { .lock = MUTEX_INIT(RANK_BASE) };

// For who is to lend a block, which takes metadata itself: the next one is out of what was lent.
enum { RESERVE_BYTES = 1024 };
static struct {
	char *start; // NULL: `first`
	size_t used;
	_Alignas(CACHE_LINE) char first[RESERVE_BYTES];
} reserve; // under base.lock

// Apart, so that the little above shares its page with others' (layout/).
static struct base_range more_ranges[RANGES_MOST - RANGES_FIRST];

static struct base_range *range_at(size_t i)
{
	return i < RANGES_FIRST ? &base.first_ranges[i] : &more_ranges[i - RANGES_FIRST];
}

void *(*base_lender)(size_t size);
static __thread bool borrowing;

static void *list_pop(size_t size)
{
	struct free_object *object = base.free[size / CACHE_LINE];

	if (object != NULL)
		base.free[size / CACHE_LINE] = object->next;
	return object;
}

static void list_push(void *object, size_t size)
{
	struct free_object *head = object;

	head->next = base.free[size / CACHE_LINE];
	base.free[size / CACHE_LINE] = head;
}

static void *block_cut(size_t size)
{
	if ((size_t)(base.end - base.at) < size)
		return NULL;
	base.at += size;
	return base.at - size;
}

// The rest of the old block becomes one free object, if it is of any use.
static inline __attribute__((always_inline)) void block_replace(char *block, size_t size)
{
	size_t rest = min_size((size_t)(base.end - base.at), BASE_LARGEST);

	if (rest >= CACHE_LINE)
		list_push(base.at, round_down(rest, CACHE_LINE));
	base.at = block;
	base.end = block + size;
}

static void block_install(char *block, size_t size)
{
	block_replace(block, size);
	base.lg_growth += base.lg_growth < LG_GROWTH_MOST;
}

static COLD void push_pieces(char *at, const char *end)
{
	while (end - at >= CACHE_LINE) {
		size_t piece = round_down(min_size((size_t)(end - at), BASE_LARGEST), CACHE_LINE);

		list_push(at, piece);
		at += piece;
	}
}

// All of the block becomes free objects: where it is not used up, another thread came with it just now.
static COLD void take_block_apart(void)
{
	push_pieces(base.at, base.end);
	base.at = base.end = NULL;
}

// The smallest free object that is large enough becomes the block.
static COLD bool make_block_of_free(size_t size)
{
	take_block_apart();
	for (; size <= BASE_LARGEST; size += CACHE_LINE) {
		char *object = list_pop(size);

		if (object != NULL) {
			block_replace(object, size);
			return true;
		}
	}
	return false;
}

// By address, of two lists that are.
static COLD struct free_object *merge(struct free_object *one, struct free_object *other)
{
	struct free_object *merged = NULL, **end = &merged;

	while (one != NULL && other != NULL) {
		struct free_object **least = (uintptr_t)one < (uintptr_t)other ? &one : &other;

		*end = *least;
		end = &(*end)->next;
		*least = *end;
	}
	*end = one != NULL ? one : other;
	return merged;
}

// All free objects, taken off their lists. sorted[i] has 2^i of them meanwhile, or none.
static COLD struct free_object *take_all_by_address(void)
{
	struct free_object *sorted[64] = { NULL }, *object;
	size_t i;

	for (size_t size = CACHE_LINE; size <= BASE_LARGEST; size += CACHE_LINE)
		while ((object = list_pop(size)) != NULL) {
			object->size = size;
			object->next = NULL;
			for (i = 0; sorted[i] != NULL; i++) {
				object = merge(sorted[i], object);
				sorted[i] = NULL;
			}
			sorted[i] = object;
		}
	object = NULL;
	for (i = 0; i < sizeof sorted / sizeof sorted[0]; i++)
		object = merge(sorted[i], object);
	return object;
}

// What lies side by side becomes one.
static COLD void join_free(void)
{
	take_block_apart();
	base.freed = base.joined = 0;
	for (struct free_object *object = take_all_by_address(), *next; object != NULL; object = next) {
		size_t size = object->size;

		next = object->next;
		while ((char *)next == (char *)object + size && size + next->size <= BASE_LARGEST) {
			size += next->size;
			next = next->next;
		}
		list_push(object, size);
		base.joined++;
	}
}

// Without memory for another block: of what objects of other sizes have left.
static COLD bool salvage_block(size_t size)
{
	bool done;

	mutex_lock(&base.lock);
	done = (size_t)(base.end - base.at) >= size || make_block_of_free(size);
	if (!done && base.freed > base.joined / JOINED_ANEW) {
		join_free();
		done = make_block_of_free(size);
	}
	mutex_unlock(&base.lock);
	return done;
}

static inline __attribute__((always_inline)) void range_note(uintptr_t start, size_t size)
{
	if (base.range_count < RANGES_MOST)
		*range_at(base.range_count++) = (struct base_range){ start, start + size };
}

static void range_add(uintptr_t start, size_t size)
{
	mutex_lock(&base.lock);
	range_note(start, size);
	mutex_unlock(&base.lock);
}

// One of that size: another thread may have mapped something there meanwhile.
static void range_remove(uintptr_t start, size_t size)
{
	mutex_lock(&base.lock);
	for (size_t i = 0; i < base.range_count; i++)
		if (range_at(i)->start == start && range_at(i)->end == start + size) {
			*range_at(i) = *range_at(--base.range_count);
			break;
		}
	mutex_unlock(&base.lock);
}

// False: what is left of the newest block serves, as when another thread came with one meanwhile.
static COLD bool block_bring(char *block, size_t bytes, size_t wanted)
{
	bool late;

	mutex_lock(&base.lock);
	late = (size_t)(base.end - base.at) >= wanted;
	if (!late)
		block_install(block, bytes);
	mutex_unlock(&base.lock);
	return !late;
}

static COLD char *reserve_start(void)
{
	return reserve.start != NULL ? reserve.start : reserve.first;
}

// Free objects, and the next reserve where this one was used.
static COLD void lent(char *block)
{
	char *end = block + BLOCK_BYTES;

	mutex_lock(&base.lock);
	range_note((uintptr_t)block, BLOCK_BYTES);
	if (reserve.used > 0) {
		push_pieces(reserve_start() + reserve.used, reserve_start() + RESERVE_BYTES);
		reserve.start = block;
		reserve.used = 0;
		block += RESERVE_BYTES;
	}
	push_pieces(block, end);
	mutex_unlock(&base.lock);
}

// Of the heap's own memory, which may have much of it left.
static COLD bool borrow_block(void)
{
	char *block;

	if (borrowing || base_lender == NULL)
		return false;
	borrowing = true;
	block = base_lender(BLOCK_BYTES);
	borrowing = false;
	if (block == NULL)
		return false;
	lent(block);
	return true;
}

static COLD void *take_reserve(size_t size)
{
	void *object = NULL;

	mutex_lock(&base.lock);
	if (size <= RESERVE_BYTES - reserve.used) {
		object = reserve_start() + reserve.used;
		reserve.used += size;
	}
	mutex_unlock(&base.lock);
	return object;
}

// The system has no block.
static COLD __attribute__((noinline)) void *without_block(size_t size)
{
	if (salvage_block(size) || borrow_block())
		return base_alloc(size);
	return borrowing ? take_reserve(size) : NULL;
}

// What the kernel does not unmap is not resident meanwhile, and the next block.
static COLD void keep_pages(void *pages, size_t size)
{
	os_pages_purge(pages, size);
	block_bring(pages, size, size);
}

static void free_pages(void *pages, size_t size)
{
	size = round_up(size, os_page_size());
	if (!os_pages_unmap(pages, size)) {
		keep_pages(pages, size);
		return;
	}
	range_remove((uintptr_t)pages, size);
	atomic_fetch_sub_explicit(&base.mapped, size, memory_order_relaxed);
}

void *base_alloc(size_t size)
{
	size = round_up(size, CACHE_LINE);
	ASSERT(size > 0 && size <= BASE_LARGEST);
	for (;;) {
		mutex_lock(&base.lock);
		void *object = list_pop(size);
		size_t wanted = base_bytes() < MUCH_BYTES ? (size_t)BLOCK_BYTES << base.lg_growth : LARGE_BLOCK_BYTES;

		if (object == NULL)
			object = block_cut(size);
		mutex_unlock(&base.lock);
		if (object != NULL)
			return object;
		void *block = base_alloc_pages(wanted);
		if (block == NULL && wanted > BLOCK_BYTES)
			block = base_alloc_pages(wanted = BLOCK_BYTES);
		if (block == NULL)
			return without_block(size);
		if (wanted == LARGE_BLOCK_BYTES && options.thp != THP_NEVER)
			os_pages_huge(block, wanted, true);
		if (!block_bring(block, wanted, size))
			free_pages(block, wanted);
	}
}

void base_free(void *object, size_t size)
{
	mutex_lock(&base.lock);
	list_push(object, round_up(size, CACHE_LINE));
	base.freed++;
	mutex_unlock(&base.lock);
}

void *base_alloc_table(size_t size)
{
	void *table;

	if (size > BASE_LARGEST)
		return base_alloc_pages(size);
	table = base_alloc(size);
	return table == NULL ? NULL : memset(table, 0, size);
}

void base_free_table(void *table, size_t size)
{
	if (size <= BASE_LARGEST) {
		base_free(table, size);
		return;
	}
	free_pages(table, size);
}

COLD void *base_alloc_pages(size_t size)
{
	int saved = errno; // who asks may do without
	size = round_up(size, os_page_size());
	void *pages = os_pages_map(size);

	errno = saved;
	if (pages == NULL)
		return NULL;
	range_add((uintptr_t)pages, size);
	atomic_fetch_add_explicit(&base.mapped, size, memory_order_relaxed);
	return pages;
}

size_t base_ranges(struct base_range *ranges, size_t most)
{
	size_t count;

	mutex_lock(&base.lock);
	count = base.range_count;
	for (size_t i = 0; i < count && i < most; i++)
		ranges[i] = *range_at(i);
	mutex_unlock(&base.lock);
	return count;
}

size_t base_bytes(void)
{
	return atomic_load_explicit(&base.mapped, memory_order_relaxed);
}

const volatile void *base_bytes_at(void)
{
	return &base.mapped;
}

struct mutex *base_mutex(void)
{
	return &base.lock;
}

void base_fork_prepare(void)
{
	mutex_fork_lock(&base.lock);
}

void base_fork_done(void)
{
	mutex_fork_unlock(&base.lock);
}
