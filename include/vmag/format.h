// What other programs may read of vmag: the root of its memory, found by the symbol vmag_root.
//
// A reader in another process opens the library's file, finds the symbol's address, reads this structure there, and follows
// it: every address is one in the process that is read, every offset is told here, none is known beforehand. Nothing stops
// while it is read, so a reader checks what it follows and takes what does not fit for torn. `vmag explain` does it.
//
//   page_map[granule]    16 bits: arena + 1, class; 0: no object starts there. granule = address >> lg_granule
//   run_tables[chunk]    a table of pointers to runs, one a granule of the chunk; chunk = address >> lg_chunk
//   run                  a slab when it has a bin: its bitmap has a set bit for each free buffer; else a large object
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

#define VMAG_ROOT_MAGIC "vmagroot"

enum { VMAG_ROOT_VERSION = 1 };

// A new version changes the meaning of something here; `bytes` grows when fields are appended.
struct vmag_root {
	char magic[8]; // written last
	uint32_t version, bytes;
	uint32_t lg_granule, lg_chunk;
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
};
