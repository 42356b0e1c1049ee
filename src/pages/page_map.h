// The page map: one 16-bit word says everything that the fast path asks about an address; and the run behind an address.
//
// All heap memory lies in one region of the address space, [0, page_map_end) granules, whose upper part holds the chunks:
//
//   0 ──────────────── nothing of ours ──────────────── first ─► [ chunk ][ chunk ][ … ] ─► end
//   granule = address >> LG_GRANULE: the number of the address's word in the map; a cache line of words covers 128 KiB
//   word:     arena + 1 (8 bits) │ size class (8 bits)       0: no object of ours starts here
//
// Every granule of a slab carries its word; of a large run only the first. The region is a range by convention, not a
// mapping: chunks are mapped when needed and unmapped when clean, so fork, core dumps and RLIMIT_AS see only what is used.
// The map is read-only zero pages but for the part that covers chunks (docs/decisions/0001); the rest is not in cores that debuggers write.
//
// Beside the map, tables lead from a granule to its run (the map at the beginning of each chunk in the 2006 paper, kept apart from
// user data): one for each half MiB in use, for a small process has only the beginnings of two chunks.
//
// Words are written by who owns the run before an address in it is handed out, and read by who was handed one.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

enum { LG_GRANULE = 12, LG_CHUNK = 21 };
#define GRANULE_BYTES ((size_t)1 << LG_GRANULE)
#define CHUNK_BYTES ((size_t)1 << LG_CHUNK)

struct run;

extern uint16_t *page_map HIDDEN;   // NULL before first use
extern size_t page_map_end HIDDEN; // granules in the map: those of the region, of all addresses, or only up to the last chunk; 0 before first use

// Finds a place for the region and maps the map, read-only at first. False: no address space; it may be called again.
bool page_map_init(void);

// Where chunks begin, and the bytes of the region from there on. (page_map_end is the region's end unless page_map_cover has
// made the map larger, or page_map_give_back smaller.)
uintptr_t page_map_first_chunk(void);
size_t page_map_chunk_bytes(void);

// Whether an object of that many bytes could ever lie there.
static inline bool page_map_has_room(size_t size, size_t align)
{
	return size <= page_map_chunk_bytes() && align <= page_map_chunk_bytes();
}

// Where the first of these is kept, for readers in other processes (include/vmag/format.h).
const uintptr_t *page_map_first_chunk_at(void);
const size_t *page_map_region_end_at(void);

// Where no chunk has been beyond.
uintptr_t page_map_last_chunk_end(void);

// Makes the map writable for [start, start + size). False: no memory.
bool page_map_commit(uintptr_t start, size_t size);

// The same for a piece alone, of memory that may lie far above what is in use.
bool page_map_commit_apart(uintptr_t start, size_t size);

// The same for memory that hooks of the program gave, which may lie anywhere in the process. The first time outside the region
// the map grows to cover all addresses: 132 GiB of address space, of which only what is used is memory. False: there was no
// room for such a map (RLIMIT_AS; an emulator), or no memory.
bool page_map_cover(uintptr_t start, size_t size);
// Whether it may be that it does another time: nobody is in the map's way.
bool page_map_may_reach_all(void);

// For a process that has all the address space that RLIMIT_AS lets it have: unmaps the parts of the map that are read-only, which
// cover addresses where no chunk has been, as long as nobody has mapped anything there. Later chunks have their part of the map
// mapped. True: it was done, now or before. Not in a sandbox. Keeps errno; may be called with locks up to RANK_RESOURCE held.
bool page_map_give_back(void);

// After the program has set RLIMIT_AS: does so at once if it leaves less than twice the address space that the process has. Not in a sandbox, nor in a child that
// shares its memory with its parent (vfork), nor in a handler amid something of ours.
void page_map_heed_limit(void);

static inline size_t granule_of(const void *address)
{
	return (uintptr_t)address >> LG_GRANULE;
}

// The word of an address; 0 for addresses that are not in the region.
static inline unsigned page_map_word(const void *address)
{
	size_t granule = granule_of(address);

	return granule < page_map_end ? page_map[granule] : 0;
}

// Gives all granules of [start, start + size) a word and a run; large runs pass size = 1: their first granule only.
// False: no memory for a table; nothing is set.
bool page_map_set(uintptr_t start, size_t size, unsigned word, struct run *run);
void page_map_clear(uintptr_t start, size_t size);

// Takes the word of an address that is in the region, leaving 0; of several threads one gets it.
static inline unsigned page_map_take_word(const void *address)
{
	return __atomic_exchange_n(&page_map[granule_of(address)], 0, __ATOMIC_ACQ_REL);
}

// Gives it another one: by who owns its run.
static inline void page_map_put_word(const void *address, unsigned word)
{
	__atomic_store_n(&page_map[granule_of(address)], (uint16_t)word, __ATOMIC_RELEASE);
}

// The run of an address, NULL when there is none.
struct run *page_map_run(const void *address);

enum { LG_TABLE = 19, RUNS_A_TABLE = 1 << (LG_TABLE - LG_GRANULE) };
typedef struct run *_Atomic run_pointer;
typedef run_pointer *_Atomic run_table;
extern run_table *page_map_tables HIDDEN; // by address >> LG_TABLE; those below the first chunk do not exist

// The next granule after that one that has a run; `end`, a multiple of what a table covers, where there is none before it.
static inline uintptr_t page_map_next_run(uintptr_t start, uintptr_t end)
{
	for (start += GRANULE_BYTES; start < end;) {
		const run_pointer *table = atomic_load_explicit(&page_map_tables[start >> LG_TABLE], memory_order_acquire);

		if (table == NULL)
			start = round_up(start + 1, 1 << LG_TABLE); // nobody needed it
		else if (atomic_load_explicit(&table[(start >> LG_GRANULE) % RUNS_A_TABLE], memory_order_relaxed) != NULL)
			return start;
		else
			start += GRANULE_BYTES;
	}
	return end;
}

// Where the run of an address is told, of which a word or a run was set there once.
static inline run_pointer *page_map_entry(const void *address)
{
	run_table *table = &page_map_tables[(uintptr_t)address >> LG_TABLE];

	return atomic_load_explicit(table, memory_order_relaxed) + granule_of(address) % RUNS_A_TABLE;
}

// The run of an address whose word is not 0.
static inline struct run *page_map_known_run(const void *address)
{
	return atomic_load_explicit(page_map_entry(address), memory_order_relaxed);
}

static inline void page_map_put_run(const void *address, struct run *run)
{
	atomic_store_explicit(page_map_entry(address), run, memory_order_release);
}

// Gives a granule that had a run before a word and a run again.
static inline void page_map_set_again(const void *address, unsigned word, struct run *run)
{
	page_map_put_run(address, run);
	page_map_put_word(address, word);
}

// Of a granule whose word was taken.
static inline void page_map_forget_run(const void *address)
{
	page_map_put_run(address, NULL);
}

void page_map_fork_prepare(void);
void page_map_fork_done(void);
