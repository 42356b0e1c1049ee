// The page map: choosing the region, growing the map, runs by address.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/page_map.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "os/areas.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "os/sandbox.h"
#include "os/thread.h"

enum {
	LG_REGION = 40,         // 1 TiB at least, if there is no limit: 512 MiB of map, of which only what is used is memory
	LG_REGION_MOST = 44,
	LG_REGION_LEAST = 33,   // 8 GiB: 4 MiB of map
	LG_REGION_PER_RAM = 4,  // sixteen times the machine's memory
	COMMIT_STEP = 64 * 1024, // bytes of map, for 128 MiB of heap
	LG_ADDRESSES = 48,      // of a process, on any processor served
	LG_PLACE = 45,          // where a map that may grow to cover them all has room: far from all that the kernel places
	LG_PLACES = 12,         // how many such places, apart by
	LG_APART = 32,          // bytes
	PLACES_TRIED = 4,
	CUTS_TRIED = 16, // each reads what the process has mapped
};
#define WHOLE_MAP_BYTES (sizeof(uint16_t) << (LG_ADDRESSES - LG_GRANULE))
#define WHOLE_TABLES_BYTES (sizeof(run_table) << (LG_ADDRESSES - LG_TABLE))

uint16_t *page_map;
size_t page_map_end;
run_table *page_map_tables;

struct gap {
	void *start;
	size_t bytes;
};

static struct {
	struct mutex lock;
	// Under lock.
	bool may_grow;           // the map and the tables are at a place with room for all addresses, where nobody was met yet
	uintptr_t committed_end; // of the writable part of the region's map
	bool is_whole;           // the map covers all addresses
	bool is_apart;           // a piece beyond committed_end is writable
	unsigned cuts_tried;
	bool is_cut;             // nothing is mapped from committed_end on, and page_map_end is there
	// Constant after page_map_init.
	uintptr_t first_chunk;
	size_t region_end; // granules
	// Atomic.
	_Atomic size_t first_granule; // with a table
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

// A number below a power of two, another one in every process. Tries are far apart: a second copy of the library in a process (dlmopen) begins with the
// same number, and finds the first where it has put its map.
static size_t place_of(uint64_t random, size_t places, unsigned tries)
{
	return (random + tries * (places / PLACES_TRIED)) % places;
}

// The map and the tables where both may grow later, one behind the other. Chunks begin somewhere in the third quarter of the region.
static bool place_with_room(size_t region)
{
	size_t granules = region >> LG_GRANULE;
	uint64_t random = os_random();

	for (unsigned i = 0; i < PLACES_TRIED; i++) {
		uintptr_t place = ((uintptr_t)1 << LG_PLACE) + (place_of(random, 1u << LG_PLACES, i) << LG_APART);

		rest.first_chunk = region / 2 + place_of(random, region / 4 / CHUNK_BYTES, i) * CHUNK_BYTES;
		run_table *tables = (run_table *)(place + WHOLE_MAP_BYTES);
		uintptr_t start = round_down((uintptr_t)&tables[rest.first_chunk >> LG_TABLE], os_page_size());
		uintptr_t end = round_up((uintptr_t)&tables[granules >> (LG_TABLE - LG_GRANULE)], os_page_size());

		if (!os_pages_reserve_at((void *)place, granules * sizeof *page_map))
			continue;
		if (os_pages_reserve_at((void *)start, end - start)) {
			os_pages_note((void *)start, end - start);
			page_map = (uint16_t *)place;
			page_map_tables = tables;
			return true;
		}
		os_pages_unmap((void *)place, granules * sizeof *page_map);
	}
	return false;
}

// Wherever the kernel likes. Not inlined: hardly a process needs it, and each reads the pages that its start lies on.
static __attribute__((noinline)) bool place_anywhere(size_t granules)
{
	uint16_t *map = os_pages_reserve(granules * sizeof *map);
	size_t first = rest.first_chunk >> LG_TABLE;
	run_table *tables = map == NULL ? NULL : base_alloc_pages(((granules >> (LG_TABLE - LG_GRANULE)) - first) * sizeof *tables);

	if (tables == NULL) {
		if (map != NULL)
			os_pages_unmap(map, granules * sizeof *map);
		return false;
	}
	page_map = map;
	page_map_tables = tables - first;
	return true;
}

static bool region_make(unsigned lg_region)
{
	size_t region = (size_t)1 << lg_region, granules = region >> LG_GRANULE;

	rest.may_grow = place_with_room(region);
	if (!rest.may_grow && (!os_pages_exist((void *)(region - CHUNK_BYTES)) || !place_anywhere(granules))) // what lies below a known address is known
		return false;
	rest.first_granule = rest.first_chunk >> LG_GRANULE;
	rest.committed_end = round_down((uintptr_t)&page_map[rest.first_granule], os_page_size());
	rest.region_end = page_map_end = granules;
	os_pages_dump(page_map, granules * sizeof *page_map, false);
	return true;
}

COLD bool page_map_init(void)
{
	if (page_map_end != 0)
		return true;
	for (unsigned lg_region = lg_region_wanted(); lg_region >= LG_REGION_LEAST; lg_region--)
		if (region_make(lg_region)) {
			os_pages_when_short(page_map_give_back);
			return true;
		}
	return false;
}

uintptr_t page_map_first_chunk(void)
{
	return rest.first_chunk;
}

const size_t *page_map_region_end_at(void)
{
	return &rest.region_end;
}

const uintptr_t *page_map_first_chunk_at(void)
{
	return &rest.first_chunk;
}

size_t page_map_chunk_bytes(void)
{
	return (rest.region_end << LG_GRANULE) - rest.first_chunk;
}

static uintptr_t address_at(uintptr_t place_in_map)
{
	return (place_in_map - (uintptr_t)page_map) / sizeof *page_map << LG_GRANULE;
}

uintptr_t page_map_last_chunk_end(void)
{
	return max_size(address_at(rest.committed_end), rest.first_chunk);
}

// There are none below the first granule that has one.
static inline __attribute__((always_inline)) void *pages_of_tables(uintptr_t start, uintptr_t end, size_t *bytes)
{
	uintptr_t first, last;

	start = max_size(start, rest.first_granule << LG_GRANULE);
	first = round_down((uintptr_t)&page_map_tables[start >> LG_TABLE], os_page_size());
	last = round_up((uintptr_t)&page_map_tables[((end - 1) >> LG_TABLE) + 1], os_page_size());
	*bytes = last - first;
	return (void *)first;
}

static COLD bool commit_tables(uintptr_t start, uintptr_t end)
{
	size_t bytes;
	void *tables = pages_of_tables(start, end, &bytes);

	return os_pages_commit(tables, bytes);
}

// Where the map is not writable as a whole: its words, in steps, and its tables.
static bool commit_piece(uintptr_t start, size_t size, size_t step)
{
	uintptr_t first = round_down((uintptr_t)&page_map[start >> LG_GRANULE], step);
	uintptr_t last = round_up((uintptr_t)&page_map[(start + size) >> LG_GRANULE], step);
	size_t bytes;
	void *tables;

	if (!os_pages_commit((void *)first, last - first))
		return false;
	os_pages_dump((void *)first, last - first, true);
	if (!commit_tables(start, start + size))
		return false;
	tables = pages_of_tables(start, start + size, &bytes);
	os_pages_dump(tables, bytes, true);
	return true;
}

static void end_set(size_t granules)
{
	__atomic_store_n(&page_map_end, granules, __ATOMIC_SEQ_CST);
}

// Where no further mapping may be made, only what is as what lies before it can become a part of that.
static COLD __attribute__((noinline)) bool commit_alike(void *from, size_t bytes)
{
	char *end = (char *)page_map + (rest.is_whole ? WHOLE_MAP_BYTES : rest.region_end * sizeof *page_map);
	bool done;

	os_pages_dump(from, (size_t)(end - (char *)from), true);
	done = os_pages_commit(from, bytes);
	if (!done)
		os_pages_dump(from, (size_t)(end - (char *)from), false);
	return done;
}

static bool commit_next(void *from, size_t bytes)
{
	int saved = errno;

	if (os_pages_commit(from, bytes)) {
		os_pages_dump(from, bytes, true);
		return true;
	}
	errno = saved;
	return commit_alike(from, bytes);
}

// The map from committed_end to `end` becomes writable.
static bool commit_to(uintptr_t end)
{
	void *from = (void *)rest.committed_end;
	size_t bytes = end - rest.committed_end;

	if (!commit_tables(address_at(rest.committed_end), address_at(end)) ||
	    (rest.is_cut ? !os_pages_map_at(from, bytes) : !commit_next(from, bytes)))
		return false;
	rest.committed_end = end;
	if (rest.is_cut)
		end_set(address_at(end) >> LG_GRANULE);
	return true;
}

COLD bool page_map_commit(uintptr_t start, size_t size)
{
	uintptr_t end = (uintptr_t)&page_map[granule_of((void *)(start + size - 1)) + 1];
	bool done;

	end = min_size(round_up(end, COMMIT_STEP), (uintptr_t)&page_map[rest.region_end]);
	// Held across a system call: once for 128 MiB of heap.
	mutex_lock(&rest.lock);
	done = end <= rest.committed_end || commit_to(end);
	mutex_unlock(&rest.lock);
	return done;
}

static bool is_in_region(uintptr_t start, size_t size)
{
	return start >= rest.first_chunk && size <= page_map_chunk_bytes() &&
	       start - rest.first_chunk <= page_map_chunk_bytes() - size;
}

// Whole pages between two places, of which nothing is mapped.
static struct gap gap_between(const void *start, const void *end)
{
	uintptr_t first = round_up((uintptr_t)start, os_page_size()), last = round_down((uintptr_t)end, os_page_size());

	return (struct gap){ (void *)first, last - first };
}

static bool reserve_gap(const struct gap *gap)
{
	if (gap->bytes == 0)
		return true;
	if (!os_pages_reserve_at(gap->start, gap->bytes))
		return false;
	os_pages_dump(gap->start, gap->bytes, false);
	return true;
}

// All or none. Somebody who has mapped something there stays; where there is just no room now, there may be later.
static bool reserve_gaps(const struct gap *gaps, unsigned count)
{
	unsigned done = 0;

	while (done < count && reserve_gap(&gaps[done]))
		done++;
	if (done == count)
		return true;
	rest.may_grow = errno != EEXIST;
	while (done-- > 0)
		if (gaps[done].bytes > 0 && !os_pages_unmap(gaps[done].start, gaps[done].bytes))
			rest.may_grow = false; // what is left there would be in the way
	return false;
}

// Makes the map cover all addresses, with zero pages.
static bool grow_whole(void)
{
	size_t first = rest.first_chunk >> LG_TABLE, end = rest.region_end >> (LG_TABLE - LG_GRANULE);
	const struct gap gaps[] = {
		gap_between(&page_map[rest.region_end], (char *)page_map + WHOLE_MAP_BYTES),
		gap_between(page_map_tables, &page_map_tables[first]),
		gap_between(&page_map_tables[end], (char *)page_map_tables + WHOLE_TABLES_BYTES),
	};

	if (!rest.may_grow || rest.is_cut || !reserve_gaps(gaps, sizeof gaps / sizeof *gaps))
		return false;
	rest.is_whole = true;
	atomic_store(&rest.first_granule, 0);
	end_set(WHOLE_MAP_BYTES / sizeof *page_map);
	return true;
}

// In a map that was cut there are no such pieces: it must reach to there.
bool page_map_commit_apart(uintptr_t start, size_t size)
{
	bool apart, done;

	mutex_lock(&rest.lock);
	apart = rest.is_apart = !rest.is_cut;
	done = apart && commit_piece(start, size, os_page_size());
	mutex_unlock(&rest.lock);
	return apart ? done : page_map_commit(start, size);
}

// Whether the process has nothing mapped at these addresses, as far as the system tells; there is always something above them.
static bool is_empty(uintptr_t start, uintptr_t end)
{
	struct os_areas areas;
	struct os_area area;

	if (!os_areas_begin_places(&areas))
		return false;
	while (os_areas_next(&areas, &area) && area.end <= start)
		continue;
	os_areas_end(&areas);
	return area.start >= end;
}

// Whoever frees an address beyond may have read the old end, and not yet the word there. If the address is any good something is mapped
// there, then as now: the end is set first, and then the mappings are looked at.
static bool cut_tail(void)
{
	size_t end = address_at(rest.committed_end) >> LG_GRANULE;
	uintptr_t tail_end = round_down((uintptr_t)&page_map[rest.region_end], os_page_size());

	if (rest.is_apart || rest.is_whole || !rest.may_grow)
		return false;
	end_set(end);
	if (is_empty(end << LG_GRANULE, rest.region_end << LG_GRANULE) &&
	    os_pages_unmap((void *)rest.committed_end, tail_end - rest.committed_end))
		return true;
	end_set(rest.region_end);
	return false;
}

// Below the chunks nothing is compared: the words of addresses where the kernel and the linker place things themselves stay, and all of
// them if anything is mapped above these.
static void cut_below(void)
{
	uintptr_t least = (uintptr_t)1 << LG_REGION_LEAST;
	uintptr_t start = round_up((uintptr_t)&page_map[least >> LG_GRANULE], os_page_size());
	uintptr_t end = round_down((uintptr_t)&page_map[rest.first_chunk >> LG_GRANULE], os_page_size());

	if (start < end && is_empty(least, rest.first_chunk))
		os_pages_unmap((void *)start, end - start);
}

// Under the lock, which it leaves.
static bool give_back(void)
{
	int saved = errno;
	bool done;

	if (!rest.is_cut && os_address_space_limit() != SIZE_MAX && rest.cuts_tried++ < CUTS_TRIED && cut_tail()) {
		rest.is_cut = true;
		cut_below();
	}
	done = rest.is_cut;
	mutex_unlock(&rest.lock);
	errno = saved;
	return done;
}

// A sandbox may end who asks for the limit, or looks at the mappings: there the want of memory is the program's.
bool page_map_give_back(void)
{
	if (atomic_load_explicit(&os_is_sandboxed, memory_order_relaxed) != 0)
		return false;
	mutex_lock(&rest.lock);
	return give_back();
}

// In a child that was made without fork's handlers a thread may have had the lock that is not there.
static bool lock_is_had(void)
{
	if (!os_process_is_own())
		return mutex_try_lock(&rest.lock);
	mutex_lock(&rest.lock);
	return true;
}

void page_map_heed_limit(void)
{
	size_t limit = os_is_shut_in() ? SIZE_MAX : os_address_space_limit(); // else files are looked into

	if (limit != SIZE_MAX && mutexes_held == 0 && limit / 2 < os_address_space() && os_memory_is_own() && lock_is_had())
		give_back();
}

bool page_map_cover(uintptr_t start, size_t size)
{
	bool done;

	if (is_in_region(start, size))
		return page_map_commit(start, size);
	if (start >> LG_ADDRESSES != 0 || (start + size - 1) >> LG_ADDRESSES != 0)
		return false;
	mutex_lock(&rest.lock);
	done = (rest.is_whole || grow_whole()) && commit_piece(start, size, COMMIT_STEP);
	mutex_unlock(&rest.lock);
	return done;
}

bool page_map_may_reach_all(void)
{
	bool may;

	mutex_lock(&rest.lock);
	may = rest.is_whole || (rest.may_grow && !rest.is_cut);
	mutex_unlock(&rest.lock);
	return may;
}

static run_table *table_of(size_t granule)
{
	return &page_map_tables[granule >> (LG_TABLE - LG_GRANULE)];
}

static bool tables_ensure(size_t first, size_t last)
{
	for (run_table *table = table_of(first); table <= table_of(last); table++) {
		run_pointer *none = NULL, *fresh;

		if (atomic_load_explicit(table, memory_order_acquire) != NULL)
			continue;
		fresh = base_alloc(RUNS_A_TABLE * sizeof *fresh);
		if (fresh == NULL)
			return false;
		memset(fresh, 0, RUNS_A_TABLE * sizeof *fresh);
		if (!atomic_compare_exchange_strong_explicit(table, &none, fresh, memory_order_acq_rel,
							     memory_order_acquire))
			base_free(fresh, RUNS_A_TABLE * sizeof *fresh);
	}
	return true;
}

static void set_one(size_t granule, unsigned word, struct run *run)
{
	run_pointer *table = atomic_load_explicit(table_of(granule), memory_order_acquire);

	atomic_store_explicit(&table[granule % RUNS_A_TABLE], run, memory_order_release);
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

	if (granule >= page_map_end || granule < rest.first_granule)
		return NULL;
	table = atomic_load_explicit(table_of(granule), memory_order_acquire);
	return table == NULL ? NULL : atomic_load_explicit(&table[granule % RUNS_A_TABLE], memory_order_acquire);
}

void page_map_fork_prepare(void)
{
	mutex_fork_lock(&rest.lock);
}

void page_map_fork_done(void)
{
	mutex_fork_unlock(&rest.lock);
}
