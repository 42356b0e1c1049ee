// Runs and slabs: what is known of a page run in use, found from an address through the page map.
//
// A slab is a run cut into buffers of one size (2001, §2.2). Its bitmap lives here, apart from the buffers, so that a program
// that writes beyond its object cannot harm it and an unused buffer is never touched (2006, "region bitmap").
//
//   run ── start ─► [ buffer 0 │ buffer 1 │ … │ buffer n−1 │ rest ]
//   bitmap          bit i is set while buffer i is free
//
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/pairing_heap.h"

struct bin;

// A page run in use: a slab when it has a bin, else a large run.
struct run {
	struct heap_node node; // key: the run's first address; linked while a slab is partial
	struct bin *bin;       // NULL: large
	union {
		size_t bytes; // of a large run: that the program may use
		struct {      // of a slab, under the bin's lock
			uint32_t free_count;
			uint32_t first_word; // no bit is set in words below
		};
	};
	uint16_t arena;
	union {
		uint8_t size_class; // of a large run that is kept in magazines, else 0
		uint8_t lg_times;   // of a slab: it is 2^lg_times as large as its bin's shape says
	};
	bool taken;            // of a slab: buffers were taken since its holes were last looked for; of a kept run: it is new there
	union {
		uint32_t sample; // of a large run: its tally in the profile (watch/profile.h), 0: not sampled
		uint32_t given;  // of a slab: pages that went back to the system and were not used again, a bit each
	};
};

// With a bitmap of one word a slab is one cache line.
struct slab {
	struct run run;
	uint64_t bitmap[]; // under the bin's lock
};

// How the slabs of a bin are cut; constant after init.
struct slab_shape {
	size_t size;         // of a buffer
	size_t slab_bytes;   // of a slab
	uint32_t buffers;    // in a slab
	uint32_t reciprocal; // ⌈2³² / size⌉: division by multiplication, exact for offsets in a slab below 4 GiB
	bool noted;          // each buffer has a note (slab_notes); such slabs are all of this size
};

// Chooses the shape for buffers of `size` bytes: waste at the end at most 1/64, metadata below 2 %.
struct slab_shape slab_shape_for(size_t size);

// The same with notes, in slabs of one page.
struct slab_shape slab_shape_noted(size_t size);

// Bytes of metadata that a slab of this shape costs, everything counted: slab, bitmap, boundary tag, page map, run table.
size_t slab_metadata_bytes(const struct slab_shape *shape);

// Bytes of the header and bitmap of a slab 2^lg_times as large.
size_t slab_header_bytes(const struct slab_shape *shape, unsigned lg_times);

// The largest slabs of bins that have much. What a magazine holds may keep as many slabs as it has rounds from being given back.
enum { LARGEST_SLAB = 64 * 1024 };

static inline uintptr_t run_start(const struct run *run)
{
	return run->node.key;
}

static inline uint32_t slab_buffers(const struct slab *slab, const struct slab_shape *shape)
{
	return shape->buffers << slab->run.lg_times;
}

static inline size_t slab_bytes(const struct slab *slab, const struct slab_shape *shape)
{
	return shape->slab_bytes << slab->run.lg_times;
}

// The buffer's number, or −1 when the address is not the start of a buffer.
static inline long slab_index(const struct slab *slab, const struct slab_shape *shape, const void *address)
{
	uint64_t offset = (uintptr_t)address - run_start(&slab->run);
	uint64_t index = offset * shape->reciprocal >> 32;

	return index * shape->size == offset && index < slab_buffers(slab, shape) ? (long)index : -1;
}

// Of a shape that is noted: by buffer, 0 at first, for whoever has the bin to use. Behind the bitmap.
static inline _Atomic uint32_t *slab_notes(struct slab *slab, const struct slab_shape *shape)
{
	return (_Atomic uint32_t *)&slab->bitmap[((size_t)shape->buffers + 63) / 64];
}

static inline void *slab_buffer(const struct slab *slab, const struct slab_shape *shape, size_t index)
{
	return (void *)(run_start(&slab->run) + index * shape->size);
}
