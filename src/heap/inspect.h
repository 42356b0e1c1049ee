// Inspecting an address: whose it is and how its slab is used (arenas.lookup, experimental.utilization).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The arena that owns the memory at an address: any address in a slab, the first page of a large object. EINVAL: nobody's.
int heap_arena_of(const void *address, unsigned *id);

// In the order of experimental.utilization.query. A buffer in a magazine counts as used. Of a large object: 0 free of 1.
struct utilization {
	void *lowest_slab;             // the slab that serves next; NULL: none, or a large object
	// Buffers and bytes of the slab of the address, or of the large object. Of a slab that is larger than its bin's shape, as many times less:
	// programs that move objects compare this with the bin's count of slabs, which has it as many times.
	size_t free_count, count;
	size_t bytes;
	size_t bin_free_count, bin_count; // buffers of all slabs of the bin
};

// False, and all zero: the address is not in a slab or a large object.
bool heap_utilization(const void *address, struct utilization *result);
