// The ledger: where every resident byte of this process is, whose sum is what the kernel calls its resident memory.
//
// The kernel's part comes from /proc/self/smaps and /proc/self/pagemap, the allocator's from its own tables. The rows sum
// exactly to `resident`. Rows marked "estimate" share what the allocator cannot tell apart; their sum with `live` is not
// one. The figures are of one moment as long as no other thread allocates; otherwise they are as good as their moments.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function and a struct have one name
#endif

// Bytes. Newer versions append fields.
struct vmag_ledger {
	size_t resident; // the sum of the rows below
	// Rows: the heap.
	size_t live;      // objects that the program holds, without what they were rounded up by
	size_t rounding;  // estimate: what objects were rounded up by, as if sizes were spread evenly within size classes
	size_t cached;    // free objects in magazines of fronts and depots; an estimate of what other threads hold
	size_t holes;     // free buffers between live ones in slabs
	size_t slab_ends; // what is left over at the ends of slabs
	size_t caches;    // slabs of object caches
	size_t dirty;     // page runs not in use, not yet given back
	// Rows: the allocator's own memory.
	size_t magazines; // the magazines themselves
	size_t base;      // boundary tags, slab headers, run tables, arenas, fronts
	size_t page_map;
	// Rows: what is not the allocator's.
	size_t programs;  // the program and its libraries: code, constants, data
	size_t files;     // other files mapped
	size_t shared;    // shared memory
	size_t stacks;    // anonymous areas behind an inaccessible page, and the first thread's stack
	size_t brk;       // the C library's heap
	size_t anonymous; // other memory that somebody mapped
	size_t kernel;    // vdso and the like
	// Beside the sum.
	size_t proportional;    // resident, shared pages counted in parts (PSS)
	size_t swapped;
	size_t heap_pss;        // of `proportional`: the heap's areas
	size_t cgroup_current;  // what the cgroup of the process uses; 0: not known
	size_t cgroup_limit;    // the least limit on the way to the root; 0: none
};

// Fills `ledger`, of which the caller knows the first `size` bytes. 0, or −1 and errno when /proc cannot be read.
// Allocates nothing; reads files, so it takes about a millisecond for each hundred megabytes.
int vmag_ledger(struct vmag_ledger *ledger, size_t size);

// Writes the ledger through `write`, in one or more pieces: as one JSON object, or as lines for people.
int vmag_ledger_write(int as_json, void (*write)(void *argument, const char *text, size_t length), void *argument);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
