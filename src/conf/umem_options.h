// libumem's options: what UMEM_DEBUG, UMEM_LOGGING and UMEM_OPTIONS say. docs/umem.md has them all.
//
// Read once at first use, constant afterwards. A variable that is not empty wins over what the program says with
// _umem_debug_init, _umem_logging_init and _umem_options_init. Programs with raised privileges ignore the variables.
// An item that is not understood is told in one line and skipped.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

struct umem_options {
	// UMEM_DEBUG; each that is on turns `guards` on.
	size_t guards;         // patterns and red zones
	size_t audit_frames;   // of a stack; 0: nobody notes who allocates and who frees
	size_t contents_bytes; // of a freed buffer that go to the log of contents
	size_t firewall_bytes; // buffers from here up end at a page that must not be touched; 0: none
	size_t verify_every;   // operations, after which every buffer is looked at; 0: never
	size_t verify_most;    // bytes of a buffer that are filled and looked at
	size_t held_bytes;     // of freed buffers that are held back before their memory is used again
	size_t mtbf;           // one allocation in so many fails; 0: none
	size_t check_null;     // umem_free(NULL, not 0) is misuse
	size_t no_abort;       // report and go on
	size_t no_signal;      // calls in signal handlers are misuse
	size_t random;         // each cache has some of these by chance
	// UMEM_LOGGING: bytes of each log, 0: none.
	size_t log_transaction, log_contents, log_fail, log_slab;
	// UMEM_OPTIONS.
	size_t concurrency;   // arenas; 0: not said
	size_t no_magazines;
	size_t thread_cache; // bytes that a thread's magazines may come to hold; 0: fronts are of processors
	size_t heap_policy;  // of vmem_heap_arena, where a request says none: a flag VM_BESTFIT, …
	size_t max_contention; // meetings within 200 ms at a cache's depot that do not yet make its magazines grow
	size_t sbrk;          // the heap is the data segment
	size_t sbrk_least;    // bytes by which that grows, and
	size_t sbrk_page;     // the size of its pages, as far as it can be had
	size_t reap_interval; // seconds between two reaps that umem_reap asks for
};

extern struct umem_options umem_options;

#define UMEM_UNBOUNDED SIZE_MAX // thread_cache without the option

// What UMEM_OPTIONS says of the sizes of umem_alloc, in that order: added; taken away, or all of them (bytes 0).
enum { UMEM_SIZE_MOST = 128 * 1024, UMEM_SIZE_CHANGES = 64 };
struct umem_size_change {
	uint32_t bytes;
	bool added;
};
extern struct umem_size_change umem_size_changes[UMEM_SIZE_CHANGES] HIDDEN;
extern unsigned umem_size_changes_count HIDDEN;

// Once, at first use: from the variables, or what the program's functions of libumem say in place of one that is not set. What is not understood is told.
void umem_options_read(void);

static inline bool umem_debugging(void)
{
	return umem_options.guards;
}
