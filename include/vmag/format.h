// What other programs may read of vmag: the root of its memory, found by the symbol vmag_root.
//
// A reader in another process opens the library's file, finds the symbol's address, reads this structure there, and follows
// it: every address is one in the process that is read, every offset is told here, none is known beforehand. Nothing stops
// while it is read, so a reader checks what it follows and takes what does not fit for torn. `vmag explain` does it.
//
//   page_map[granule]    16 bits: arena + 1, class; 0: no object starts there. granule = address >> lg_granule
//   run_tables[number]   a table of pointers to runs, one a granule of what the table covers; number = address >> lg_table
//   run                  a slab when it has a bin: its bitmap has a set bit for each free buffer; else a large object. A slab whose word names no class has
//                        small objects that were sampled: behind the bitmap's whole words a uint32_t for each buffer, the number of the tally of
//                        the object there; 0: there is none, UINT32_MAX: it has no tally
//   arenas[number]       an arena: its bins, depots, counts of large objects and page runs, at the offsets told
//   fronts               a list of what threads hold: magazines by class, in which a slot with an address is a free object
//   tally_blocks         blocks of tallies, by number from 1; each has a stack of return addresses, innermost first
//   request              what an observer asks of the process: it writes there (struct vmag_request)
//
// Nothing of the process runs for it: stopped and deadlocked processes are read like any other
// (docs/decisions/0017-read-in-place.md).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

#define VMAG_ROOT_MAGIC "vmagroot"

// 2: slabs whose word names no class have samples and, behind the bitmap, notes; in 1, sampled objects were page runs.
enum { VMAG_ROOT_VERSION = 2 };

// A new version changes the meaning of something here; `bytes` grows when fields are appended: a reader takes a field for
// missing that lies beyond, and ignores what it does not know.
struct vmag_root {
	char magic[8]; // written last
	uint32_t version, bytes;
	uint32_t lg_granule, lg_table;
	uint32_t classes, slab_classes; // classes from slab_classes on are page runs kept in magazines; class 0 is not kept
	// Addresses of variables.
	uint64_t page_map;       // pointer
	uint64_t page_map_end;   // uint64_t: granules
	uint64_t run_tables;     // pointer
	uint64_t first_chunk;    // uint64_t: address below which no chunk is
	uint64_t mappings;       // array of { uint64_t start, bytes }: the library's own memory
	uint64_t mappings_count; // uint32_t
	uint64_t magazine_bins, magazine_bins_end; // bins in here hold magazines; other bins without a word are object caches
	// Offsets in structures.
	uint32_t run_start, run_bin, run_bytes; // uint64_t, pointer, uint64_t
	uint32_t slab_bitmap;                   // array of uint64_t
	uint32_t bin_size, bin_slab_bytes, bin_buffers; // uint64_t, uint64_t, uint32_t
	uint32_t magazine_capacity;             // uint16_t
	uint32_t magazine_slots;                // array of pointers; what is below 2^16 is an empty slot
	char library_version[16];

	// Appended: counters. Addresses of variables.
	uint64_t publish;                 // uint8_t; 0: the process does not want to be looked into
	uint64_t arenas, arenas_end;      // array of pointers, of which some may be NULL; uint32_t: how many
	uint64_t fronts;                  // pointer to the first one
	uint64_t processors;              // pointer to an array of pointers, of which some may be NULL; NULL: there are none
	uint64_t processors_count;        // uint32_t
	uint64_t processors_word;         // uint64_t: (number of the arena that most of their objects belong to + 1) << 8
	uint64_t base_mapped;             // uint64_t: bytes
	uint64_t magazine_pages;          // pages (not a pointer to them) of the magazines
	// Offsets; `…_bytes`: sizes of elements of arrays.
	uint32_t arena_bytes, arena_threads, arena_state; // uint32_t; uint8_t, 0: live
	uint32_t arena_pages, arena_bins, arena_depots;   // pages; arrays by class
	uint32_t arena_large; // array of { uint64_t allocated, freed } from class slab_classes on; the last: no class's
	uint32_t arena_large_count;
	uint32_t pages_mapped, pages_free, pages_dirty; // uint64_t, uint64_t[2], uint64_t
	uint32_t bin_bytes, bin_slabs, bin_free_buffers, bin_partial_slabs; // uint64_t
	uint32_t bin_filled, bin_drained;                                   // uint64_t: buffers handed out and taken back, ever
	uint32_t depot_bytes, depot_rounds;                                 // uint64_t
	uint32_t front_next, front_arena, front_loaded, front_previous;     // pointers; arrays by class of pointers to magazines
	uint32_t processor_slots; // pointer to an array by class; in it:
	uint32_t slot_bytes, slot_loaded, slot_previous; // pointers to magazines

	// Appended: the profile. Addresses of variables.
	uint64_t profile_active, profile_lg_sample; // uint8_t
	uint64_t profile_lost;                      // uint64_t
	uint64_t tally_blocks, tally_count;         // array of pointers; uint32_t: the last number
	uint64_t thread_names, thread_count;        // array of pointers to blocks of names, by thread; uint32_t
	uint64_t request;                           // struct vmag_request
	uint32_t tallies_a_block, names_a_block, name_bytes;
	uint32_t tally_bytes, tally_stack, tally_size, tally_thread, tally_arena; // pointer, uint64_t, uint32_t, uint16_t
	uint32_t tally_lg_sample, tally_retired, tally_live, tally_total;         // uint8_t, uint8_t, uint64_t, uint64_t
	uint32_t stack_depth, stack_frames;                                       // uint32_t; array of uint64_t
	// A tally's arena from VMAG_ARENA_CACHES on: the objects are of the object cache arena − VMAG_ARENA_CACHES (`caches`).
	uint32_t run_sample; // in a run without a bin: uint32_t, the number of its tally, 0: not sampled

	// Appended: options.
	uint64_t options, options_bytes; // the values in force: a library loaded from the same file knows what they mean
	uint64_t option_sources;         // array of pointers to strings, NULL: by nobody; in the order of vmag_options_print

	// Appended: object caches.
	uint64_t caches, caches_end; // array of pointers, of which some may be NULL; uint32_t: how many
	uint32_t cache_name, cache_name_bytes;            // characters, ended by a zero
	uint32_t cache_object_bytes;                      // uint64_t
	uint32_t cache_bin, cache_depot;                  // as an arena's

	// Appended: kept runs.
	uint32_t pages_kept; // uint64_t: bytes of freed runs that are neither in pages_free nor in pages_dirty

	// Appended: one free object of a small class that a thread has beside its magazines.
	uint32_t front_words;                // pointer, NULL: it has none; to
	uint32_t words_ahead, ahead_classes; // an array by class of pointers, NULL: none; its length

	// Appended: slabs that are larger than their bin says; bin_slabs and bin_partial_slabs count one as many times.
	uint32_t slab_lg_times; // uint8_t: 2^ it times as large, with as many times the buffers

	// Appended: fronts of processors hold objects of several arenas, the page map says which; what lies beyond a magazine's rounds there
	// is no round, whatever it looks like.
	uint32_t processor_tops;         // pointer to an array by slot of pointers: the end of the loaded magazine's rounds
	uint32_t processor_object_slots; // slots of objects; beyond them are those of object caches
	uint32_t magazine_rounds;        // uint32_t: of one that is not loaded

	// Appended: a front's objects of classes from common_classes on are of another arena than front_arena.
	uint32_t front_common; // pointer
	uint32_t common_classes;

	// Appended: an arena's bins of samples, as many as samples_classes, one for each class from 0 on as its bins are.
	uint32_t arena_samples; // pointer; NULL before the first
	uint32_t samples_classes;

	// Appended: small objects that were sampled and are page runs; as arena_large, by class from 0 on.
	uint32_t arena_sampled_runs;

	// Appended: objects of object caches that are alive and were sampled, in lists of { next, object: pointers; uint32_t tally }.
	uint32_t sampled_lists_count;
	uint64_t sampled_lists; // pointer, NULL: nothing was sampled; to an array of pointers to the first of each list, NULL: it is empty
};

enum { VMAG_ARENA_CACHES = 0x8000 };

// Large classes: class c ≥ slab_classes has (5 + (c − 10) % 4) << (5 + (c − 10) / 4) bytes.

// What an observer asks of a process. It writes all fields and, last, `number` = answered + 1; the process sees it the next
// time that somebody comes by whose magazines were all used up, that a large object is allocated or freed, or, in a process of several threads, that the
// background thread looks: a process that does not allocate may never see it. It then obeys, writes `error`, and last answered = number.
// One observer at a time.
struct vmag_request {
	uint32_t number, answered;
	uint32_t what;  // VMAG_ASK_…
	int32_t error;  // 0: done, or an errno
	uint64_t value; // …PROFILE_ON: the mean bytes between samples, a power of two; …TRACE_ON: most bytes of the file
	uint32_t flag;  // …TRACE_ON: VMAG_TRACE_RING: overwrite the oldest events when the file is full, …_STACKS: with call stacks
	char path[256]; // …TRACE_ON: what the file's name begins with; …REPORT: REQUEST[,json],PATH as in VMAG_UMEM_REPORT
};

enum { VMAG_ASK_PROFILE_ON = 1, VMAG_ASK_PROFILE_OFF, VMAG_ASK_TRACE_ON, VMAG_ASK_TRACE_OFF, VMAG_ASK_REPORT };
enum { VMAG_TRACE_RING = 1, VMAG_TRACE_STACKS = 2 };

// A black box (option black_box): a file that a process keeps up to date while it runs, mapped and shared, so that it is there
// after kill −9 and the OOM killer. What it says of samples is exact; counters are of the last look, a quarter of a second ago
// in a process that allocates. Offsets count from the file's beginning. Numbers are those of the machine that wrote them.
//
//   [ vmag_box │ maps │ maps │ names of threads │ names of caches │ tallies │ stacks, one after the other ]

#define VMAG_BOX_MAGIC "vmag_box"

enum { VMAG_BOX_VERSION = 1, VMAG_BOX_CLASSES = 240 };

struct vmag_box_class {
	uint64_t size; // 0: no object of it ever was; then, as the counters above have it:
	uint64_t live, cached, handed_out, taken_back, slabs, partial_slabs, free_buffers, slab_bytes;
};

struct vmag_box_counters {
	uint64_t time; // seconds since 1970
	uint64_t allocated, active, dirty, cached, metadata, mapped, resident, peak_resident;
	uint32_t arenas, threads;
	struct vmag_box_class classes[VMAG_BOX_CLASSES];
};

// What was sampled of one stack, size, thread, arena and rate.
struct vmag_box_tally {
	uint64_t stack; // offset of a vmag_box_stack; 0: the number is not in use
	uint64_t size;
	uint32_t thread;
	uint16_t arena; // or VMAG_ARENA_CACHES and the number of an object cache
	uint8_t lg_sample, unused;
	uint64_t live, total; // counts of samples
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" // C++ has no such array
struct vmag_box_stack {
	uint64_t depth;
	uint64_t frames[]; // return addresses, innermost first
};
#pragma GCC diagnostic pop

struct vmag_box {
	char magic[8]; // written last
	uint32_t version, bytes;
	uint64_t file_bytes;
	uint64_t begun; // seconds since 1970
	uint32_t pid, unused;
	char library_version[16], program[64];
	// Offsets and sizes; constant.
	uint32_t maps, maps_bytes;         // two texts as of /proc/PID/maps, of what is executed in, each of at most maps_bytes, with build ids as in trace_format.h
	uint32_t names, name_bytes, names_most; // by thread
	uint32_t tallies, tallies_most;    // by number − 1
	uint32_t stacks;
	// Changing. Of two texts, two counters: number n is at n & 1, the other one is being written.
	uint32_t maps_written, maps_used[2];
	uint32_t counters_written;
	uint32_t profile_active, lg_sample;
	uint64_t lost;    // samples for which the process had no memory
	uint64_t no_room; // tallies for which there is no room here
	struct vmag_box_counters counters[2];

	// Appended: names of object caches, by number; those of which something was sampled.
	uint32_t caches, cache_name_bytes, caches_most, unused_too;
};
