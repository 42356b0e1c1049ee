// The page map: choosing the region, growing the map, runs by address.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/page_map.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "util/assert.h"

enum {
	LG_REGION = 40,         // 1 TiB at least, if there is no limit: 512 MiB of map, of which only what is used is memory
	LG_REGION_MOST = 44,
	LG_REGION_LEAST = 33,   // 8 GiB: 4 MiB of map
	LG_REGION_PER_RAM = 4,  // sixteen times the machine's memory
	COMMIT_STEP = 64 * 1024, // bytes of map, for 128 MiB of heap
};

uint16_t *page_map;
size_t page_map_end;
run_table *page_map_tables;

static struct {
	struct mutex lock;
	uintptr_t committed_end; // of the writable part of the map; under lock
	uintptr_t first_chunk;
} rest = { .lock = MUTEX_INIT(RANK_PAGE_MAP) };

// A process that may use little address space gets a region, and so a map, that fits.
static unsigned lg_region_wanted(void)
{
	size_t limit = os_address_space_limit();
	unsigned lg = lg_ceil(os_memory_bytes() | 1) + LG_REGION_PER_RAM;

	lg = lg < LG_REGION ? LG_REGION : lg > LG_REGION_MOST ? LG_REGION_MOST : lg;
	if (limit >> (lg - 2) == 0)
		lg = lg_ceil(limit | 1) + 3;
	return lg < LG_REGION_LEAST ? LG_REGION_LEAST : lg;
}

// Chunks begin somewhere in the third quarter of the region, at another place in every process.
static uintptr_t random_first_chunk(size_t region)
{
	return region / 2 + round_down(os_random() * CHUNK_BYTES % (region / 4), CHUNK_BYTES);
}

// Whether the processor and the kernel know the address at all, or somebody is there, which shows the same.
static bool can_map(uintptr_t chunk)
{
	if (!os_pages_map_at((void *)chunk, CHUNK_BYTES))
		return errno == EEXIST;
	os_pages_unmap((void *)chunk, CHUNK_BYTES);
	return true;
}

static bool region_make(unsigned lg_region)
{
	size_t region = (size_t)1 << lg_region, granules = region >> LG_GRANULE;
	uint16_t *map = os_pages_reserve(granules * sizeof *map);

	if (map == NULL)
		return false;
	rest.first_chunk = random_first_chunk(region);
	if (!can_map(rest.first_chunk) || !can_map(region - CHUNK_BYTES)) {
		os_pages_unmap(map, granules * sizeof *map);
		return false;
	}
	run_table *tables = base_alloc_pages(((region - rest.first_chunk) >> LG_CHUNK) * sizeof *tables);
	if (tables == NULL) {
		os_pages_unmap(map, granules * sizeof *map);
		return false;
	}
	rest.committed_end = round_down((uintptr_t)&map[rest.first_chunk >> LG_GRANULE], os_page_size());
	page_map_tables = tables - (rest.first_chunk >> LG_CHUNK);
	page_map = map;
	page_map_end = granules;
	return true;
}

bool page_map_init(void)
{
	if (page_map != NULL)
		return true;
	for (unsigned lg_region = lg_region_wanted(); lg_region >= LG_REGION_LEAST; lg_region--)
		if (region_make(lg_region))
			return true;
	return false;
}

uintptr_t page_map_first_chunk(void)
{
	return rest.first_chunk;
}

const uintptr_t *page_map_first_chunk_at(void)
{
	return &rest.first_chunk;
}

size_t page_map_chunk_bytes(void)
{
	return (page_map_end << LG_GRANULE) - rest.first_chunk;
}

bool page_map_commit(uintptr_t start, size_t size)
{
	uintptr_t end = (uintptr_t)&page_map[granule_of((void *)(start + size - 1)) + 1];
	bool done = true;

	end = min_size(round_up(end, COMMIT_STEP), (uintptr_t)&page_map[page_map_end]);
	// The one lock that is held across a system call: once for 128 MiB of heap.
	mutex_lock(&rest.lock);
	if (end > rest.committed_end) {
		done = os_pages_commit((void *)rest.committed_end, end - rest.committed_end);
		if (done)
			rest.committed_end = end;
	}
	mutex_unlock(&rest.lock);
	return done;
}

bool page_map_cover(uintptr_t start, size_t size)
{
	if (start < rest.first_chunk || size > (page_map_end << LG_GRANULE) - rest.first_chunk ||
	    start > (page_map_end << LG_GRANULE) - size)
		return false;
	return page_map_commit(start, size);
}

static run_table *table_of(size_t granule)
{
	return &page_map_tables[granule >> (LG_CHUNK - LG_GRANULE)];
}

static bool tables_ensure(size_t first, size_t last)
{
	for (run_table *table = table_of(first); table <= table_of(last); table++) {
		run_pointer *none = NULL, *fresh;

		if (atomic_load_explicit(table, memory_order_acquire) != NULL)
			continue;
		fresh = base_alloc(RUNS_A_CHUNK * sizeof *fresh);
		if (fresh == NULL)
			return false;
		memset(fresh, 0, RUNS_A_CHUNK * sizeof *fresh);
		if (!atomic_compare_exchange_strong_explicit(table, &none, fresh, memory_order_acq_rel,
							     memory_order_acquire))
			base_free(fresh, RUNS_A_CHUNK * sizeof *fresh);
	}
	return true;
}

static void set_one(size_t granule, unsigned word, struct run *run)
{
	run_pointer *table = atomic_load_explicit(table_of(granule), memory_order_acquire);

	atomic_store_explicit(&table[granule % RUNS_A_CHUNK], run, memory_order_release);
	page_map[granule] = (uint16_t)word;
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

	if (granule >= page_map_end || granule < rest.first_chunk >> LG_GRANULE)
		return NULL;
	table = atomic_load_explicit(table_of(granule), memory_order_acquire);
	return table == NULL ? NULL : atomic_load_explicit(&table[granule % RUNS_A_CHUNK], memory_order_acquire);
}

void page_map_fork_prepare(void)
{
	mutex_fork_lock(&rest.lock);
}

void page_map_fork_done(void)
{
	mutex_fork_unlock(&rest.lock);
}
