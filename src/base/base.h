// Memory for our own metadata: boundary tags, slabs, arenas, fronts. From the operating system; from the heap
// only where that has no more.
//
// Objects are cache-line aligned multiples of a cache line up to BASE_LARGEST; freed ones wait on a list of their size.
// Blocks are never given back: metadata is below 2 % of the heap by construction (docs/decisions/0003).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { BASE_LARGEST = 8192 };

// Contents undefined. NULL when there is no memory. May call the operating system, with no lock of its own held: callers
// hold none either.
void *base_alloc(size_t size);

// `size` as asked for at base_alloc. Never fails.
void base_free(void *object, size_t size);

// Tables: any size, zeroed. Beyond BASE_LARGEST straight from the system.
void *base_alloc_table(size_t size);
void base_free_table(void *table, size_t size);

// Zeroed, page-aligned, any size, for the life of the process.
void *base_alloc_pages(size_t size);

// The ranges that hold our metadata, up to `most` of them; returns how many there are. For who looks for references to
// objects, of which metadata is full.
struct base_range {
	uintptr_t start, end;
};
size_t base_ranges(struct base_range *ranges, size_t most);

// Bytes obtained from the system, and where they are counted, for readers in other processes (include/vmag/format.h).
size_t base_bytes(void);
const volatile void *base_bytes_at(void);

// Lends that many bytes for ever, where the system has none; NULL: none to spare. What it allocates here meanwhile is of what there is. Set once.
extern void *(*base_lender)(size_t size);

// For its figures.
struct mutex;
struct mutex *base_mutex(void);

void base_fork_prepare(void);
void base_fork_done(void);
