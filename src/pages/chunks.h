// Chunks: the process-wide vmem arena of the heap region, from which every arena of pages imports.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmem/vmem.h"

// The arena whose integers are the addresses of the region. Its free segments are not mapped.
extern struct vmem heap_arena;

// Called once. False: no memory; it may be called again.
bool chunks_init(void);

// Addresses from the heap arena at a multiple of `align` (0: a chunk), backed by zero pages (2001, §4.3.3, segkmem_alloc). 0: no memory.
uintptr_t chunks_import(size_t size, size_t align);
// What was imported as one may be released in parts, or with its neighbours. False: it could not be unmapped, and is the caller's as before.
bool chunks_release(uintptr_t start, size_t size);

// What an import gave and its taker has unmapped. `taken`: somebody else has mapped something there, so that it is not to be tried again.
void chunks_give_up(uintptr_t start, size_t size, bool taken);

// Bytes mapped for all arenas.
size_t chunks_mapped_bytes(void);
