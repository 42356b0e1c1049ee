// Magazines are objects of slabs like any other (2001, §3.3), in chunks of their own, which may lie next to those of the program's objects.
// SPDX-License-Identifier: BSD-2-Clause
#include "magazine/magazine.h"

#include <stdatomic.h>
#include <string.h>

#include "slab/holes.h"
#include "util/assert.h"

enum { REFUSALS_A_TRY = 256 };

static struct {
	struct pages pages;
	struct bin bins[MAGAZINE_SIZES];
	_Atomic unsigned refusals; // still to come without asking for memory
} depository;

COLD void magazines_init(void)
{
	pages_init(&depository.pages, "magazines");
	for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
		bin_init(&depository.bins[size], slab_shape_for(64u << size), &depository.pages, 0, 0);
}

void magazine_clear(struct magazine *magazine, uintptr_t word)
{
	unsigned capacity = magazine->capacity;

#pragma GCC unroll 4
	for (unsigned i = 0; i < capacity; i++)
		magazine->round[i] = (void *)word;
	magazine->rounds = 0;
}

static void take_shape(struct magazine *magazine, unsigned capacity, uintptr_t word)
{
	magazine->capacity = (uint16_t)capacity;
	magazine->round[capacity] = MAGAZINE_FULL;
	magazine_clear(magazine, word);
}

bool magazine_change(struct magazine *magazine, unsigned capacity, uintptr_t word)
{
	if (capacity > magazine_slots(magazine->size))
		return false;
	take_shape(magazine, capacity, word);
	return true;
}

uint32_t magazine_gap(const struct magazine *magazine, uint32_t rounds)
{
	uint32_t gap = 0;

	while (gap < rounds && magazine->round[gap] == MAGAZINE_GAP)
		gap++;
	return gap;
}

void magazine_close_gap_slow(struct magazine *magazine)
{
	uint32_t gap = magazine_gap(magazine, magazine->rounds);

	magazine->rounds -= gap;
	memmove(magazine->round, magazine->round + gap, magazine->rounds * sizeof(void *));
}

static unsigned size_for(unsigned capacity)
{
	unsigned size = 0;

	while (magazine_slots(size) < capacity)
		size++;
	return size;
}

// Where there is no memory, every free would ask the system for some in vain, that of a program that gives all back as well.
static bool grow(struct bin *bin)
{
	unsigned refusals = atomic_load_explicit(&depository.refusals, memory_order_relaxed);
	bool grown = refusals == 0 && bin_grow(bin);

	if (!grown)
		atomic_store_explicit(&depository.refusals, (refusals == 0 ? REFUSALS_A_TRY : refusals) - 1, memory_order_relaxed);
	return grown;
}

void magazines_ask(void)
{
	atomic_store_explicit(&depository.refusals, 0, memory_order_relaxed);
}

struct magazine *magazine_create(unsigned capacity, uintptr_t word)
{
	unsigned size = size_for(capacity);
	void *memory;

	COUNT(magazines);
	while (bin_fill(&depository.bins[size], &memory, 1) == 0)
		if (!grow(&depository.bins[size]))
			return NULL;
	struct magazine *magazine = memory;
	magazine->next = NULL;
	magazine->size = (uint16_t)size;
	magazine->guard = NULL;
	take_shape(magazine, capacity, word);
	return magazine;
}

void magazine_destroy(struct magazine *magazine)
{
	void *memory = magazine;
	size_t done;
	enum bin_finding finding = bin_drain(&depository.bins[magazine->size], &memory, 1, &done);

	COUNT(magazines);
	ALWAYS(finding == BIN_OK);
}

const struct bin *magazines_bins_at(void)
{
	return depository.bins;
}

const void *magazines_pages_at(void)
{
	return &depository.pages;
}

bool magazines_own(const struct bin *bin)
{
	return bin >= depository.bins && bin < depository.bins + MAGAZINE_SIZES;
}

bool magazines_begin_walk(void)
{
	bool later = false;

	for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
		later |= bin_begin_walk(&depository.bins[size]);
	return later;
}

size_t magazines_bytes(void)
{
	return pages_active_bytes(&depository.pages);
}

size_t magazines_dirty_bytes(void)
{
	return pages_dirty_bytes(&depository.pages);
}

size_t magazines_garbage(void)
{
	return pages_garbage(&depository.pages);
}

void magazines_trim(bool everything, uint64_t now_ms)
{
	for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
		bin_trim(&depository.bins[size], everything);
	if (everything)
		pages_purge(&depository.pages, 0);
	else
		pages_decay(&depository.pages, now_ms);
}

void magazines_fork_lock_bins(void)
{
	for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
		mutex_fork_lock(&depository.bins[size].lock);
}

void magazines_fork_lock_pages(void)
{
	mutex_fork_lock(&depository.pages.runs.lock);
}

void magazines_fork_lock_extents(void)
{
	mutex_fork_lock(&depository.pages.extents.lock);
}

void magazines_fork_done(void)
{
	mutex_fork_unlock(&depository.pages.extents.lock);
	mutex_fork_unlock(&depository.pages.runs.lock);
	for (unsigned size = MAGAZINE_SIZES; size-- > 0;)
		mutex_fork_unlock(&depository.bins[size].lock);
	atomic_store(&depository.pages.decaying, false);
}
