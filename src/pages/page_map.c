// The page map: choosing the region, growing the map, runs by address.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/page_map.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "util/assert.h"

enum {
	LG_REGION_MOST = 40, // 1 TiB
	LG_REGION_LEAST = 30,
	LG_PLACES_MOST = 46, // the region is put below this address, far from stacks and libraries
	LG_PLACES_LEAST = 37,
	TRIES = 16,
	COMMIT_STEP = 64 * 1024, // bytes of map, for 128 MiB of heap
	RUNS_A_CHUNK = 1 << (LG_CHUNK - LG_GRANULE),
};

typedef struct run *_Atomic run_pointer;
typedef run_pointer *_Atomic run_table;

uintptr_t page_map_base;
size_t page_map_granules;

static struct {
	struct mutex lock;
	uintptr_t committed; // end of the writable part of the map; under lock
	run_table *tables;   // one a chunk, each of RUNS_A_CHUNK pointers
} rest = { .lock = MUTEX_INIT(RANK_PAGE_MAP) };

// A process that may use little address space gets a region, and so a map, that fits: at most 1/512 of its limit.
static unsigned lg_region_wanted(void)
{
	size_t limit = os_address_space_limit();
	unsigned lg = limit >> (LG_REGION_MOST - 2) != 0 ? LG_REGION_MOST : lg_ceil(limit | 1) + 2;

	return lg < LG_REGION_LEAST ? LG_REGION_LEAST : lg;
}

static size_t map_bytes(unsigned lg_region)
{
	return sizeof(uint16_t) << (lg_region - LG_GRANULE);
}

static bool place_region(unsigned lg_region, unsigned lg_places)
{
	size_t size = (size_t)1 << lg_region, places = (size_t)1 << lg_places;
	uint64_t random = os_random();

	if (lg_places <= lg_region + 1)
		return false;
	for (int i = 0; i < TRIES; i++, random = random * 6364136223846793005u + 1442695040888963407u) {
		// In the upper half of the places, on a boundary of 1 GiB, so that the lower half stays to others.
		uintptr_t base = places / 2 + (random >> 8) % ((places / 2 - size) >> 30) * ((size_t)1 << 30);

		if (os_pages_reserve_at((void *)base, map_bytes(lg_region))) {
			page_map_base = base;
			page_map_granules = size >> LG_GRANULE;
			return true;
		}
	}
	return false;
}

bool page_map_init(void)
{
	for (unsigned lg_region = lg_region_wanted(); lg_region >= LG_REGION_LEAST; lg_region--)
		for (unsigned lg_places = LG_PLACES_MOST; lg_places >= LG_PLACES_LEAST; lg_places -= 3)
			if (place_region(lg_region, lg_places)) {
				rest.committed = page_map_base;
				rest.tables = base_alloc_pages((page_map_granules >> (LG_CHUNK - LG_GRANULE)) * sizeof *rest.tables);
				return rest.tables != NULL;
			}
	return false;
}

uintptr_t page_map_first_chunk(void)
{
	return round_up(page_map_base + page_map_granules * sizeof(uint16_t), CHUNK_BYTES);
}

uintptr_t page_map_end(void)
{
	return page_map_base + (page_map_granules << LG_GRANULE);
}

bool page_map_commit(uintptr_t start, size_t size)
{
	uintptr_t end = page_map_base + (granule_of((void *)(start + size - 1)) + 1) * sizeof(uint16_t);
	bool done = true;

	end = min_size(round_up(end, COMMIT_STEP), page_map_base + page_map_granules * sizeof(uint16_t));
	// The one lock that is held across a system call: once for 128 MiB of heap.
	mutex_lock(&rest.lock);
	if (end > rest.committed) {
		done = os_pages_commit((void *)rest.committed, end - rest.committed);
		if (done)
			rest.committed = end;
	}
	mutex_unlock(&rest.lock);
	return done;
}

static run_table *table_of(size_t granule)
{
	return &rest.tables[granule >> (LG_CHUNK - LG_GRANULE)];
}

static bool tables_ensure(size_t first, size_t last)
{
	for (size_t chunk = first >> (LG_CHUNK - LG_GRANULE); chunk <= last >> (LG_CHUNK - LG_GRANULE); chunk++) {
		run_pointer *none = NULL, *fresh;

		if (atomic_load_explicit(&rest.tables[chunk], memory_order_acquire) != NULL)
			continue;
		fresh = base_alloc(RUNS_A_CHUNK * sizeof *fresh);
		if (fresh == NULL)
			return false;
		memset(fresh, 0, RUNS_A_CHUNK * sizeof *fresh);
		if (!atomic_compare_exchange_strong_explicit(&rest.tables[chunk], &none, fresh, memory_order_acq_rel,
							     memory_order_acquire))
			base_free(fresh, RUNS_A_CHUNK * sizeof *fresh);
	}
	return true;
}

static void set_one(size_t granule, unsigned word, struct run *run)
{
	run_pointer *table = atomic_load_explicit(table_of(granule), memory_order_acquire);

	atomic_store_explicit(&table[granule % RUNS_A_CHUNK], run, memory_order_release);
	((uint16_t *)page_map_base)[granule] = (uint16_t)word;
}

bool page_map_set(uintptr_t start, size_t size, unsigned word, struct run *run)
{
	size_t first = granule_of((void *)start), last = granule_of((void *)(start + size - 1));

	if (!tables_ensure(first, last))
		return false;
	for (size_t granule = first; granule <= last; granule++)
		set_one(granule, word, run);
	return true;
}

void page_map_clear(uintptr_t start, size_t size)
{
	size_t first = granule_of((void *)start), last = granule_of((void *)(start + size - 1));

	for (size_t granule = first; granule <= last; granule++)
		set_one(granule, 0, NULL);
}

struct run *page_map_run(const void *address)
{
	size_t granule = granule_of(address);
	run_pointer *table;

	if (granule >= page_map_granules)
		return NULL;
	table = atomic_load_explicit(table_of(granule), memory_order_acquire);
	return table == NULL ? NULL : atomic_load_explicit(&table[granule % RUNS_A_CHUNK], memory_order_acquire);
}

void page_map_fork_prepare(void)
{
	mutex_lock(&rest.lock);
}

void page_map_fork_done(void)
{
	mutex_unlock(&rest.lock);
}
