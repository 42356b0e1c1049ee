// The sizes of umem_alloc when UMEM_OPTIONS says something about them (size_add, size_remove, size_clear).
//
// Without, umem_alloc is malloc: its sizes are malloc's classes, and nothing here is used. With, there is a table of sizes, at first malloc's
// classes up to UMEM_SIZE_MOST, to which the items are applied one after the other. A request takes the least size that holds it:
//
//   a class of malloc   malloc's, of that size
//   an added size       an object cache of its own, umem_alloc_SIZE
//   none up to 16 KiB   whole pages, as libumem's largest cache that cannot be taken away
//
// The table is made at first use and constant then; caches are made as they are needed.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Whether requests have to ask here. The first call, after heap_ready, makes the table; without memory for it there is none.
bool umem_sizes_changed(void);

// A buffer for `size` bytes, not 0. NULL: no memory.
void *umem_sizes_alloc(size_t size);

// The buffer that umem_sizes_alloc gave for `size`.
void umem_sizes_free(void *buffer, size_t size);
