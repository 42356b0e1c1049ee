// Size classes: 8, then steps of 16 to 128, then four for each doubling; so a request above 64 bytes wastes at most 20 %.
//
//   class   0          1   2 … 9          10 … 36          37 … 45             beyond
//   bytes   no class   8   16 … 128       160 … 14 Ki      16 Ki … 64 Ki       80 Ki …
//   memory             slabs                               page runs           page runs, not kept in magazines
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

enum {
	SMALL_MOST = 1024,          // bytes; classes up to here are looked up in a table
	SLAB_MOST = 14 * 1024,      // bytes; larger objects are page runs
	MAGAZINE_MOST = 64 * 1024,  // bytes; larger objects are not kept in magazines
	LINE_CLASSES = 5,           // classes 1 … 4, smaller than a cache line
	SMALL_CLASSES = 22,         // classes 1 … 21, to SMALL_MOST
	SLAB_CLASSES = 37,          // classes 1 … 36
	CLASSES = 46,               // classes 1 … 45
	LARGE_CLASSES = 196,        // classes 37 … 232, to 7 EiB
};

// The largest class size that an object could have, had the machine the memory.
#define LARGEST_CLASS ((size_t)7 << 60)

// By bytes asked for, 0 … SMALL_MOST.
extern const uint8_t size_class_small[SMALL_MOST + 1] HIDDEN;

// Bytes of an object of a class that is kept in magazines, without a calculation.
extern const uint32_t size_class_bytes[CLASSES] HIDDEN;

// The class number of any size ≥ 129, also beyond CLASSES.
static inline unsigned size_class_large(size_t size)
{
	unsigned lg = lg_floor(size - 1);

	return 10 + (lg - 7) * 4 + (unsigned)((size - 1) >> (lg - 2) & 3);
}

static inline unsigned size_class(size_t size)
{
	return size <= SMALL_MOST ? size_class_small[size] : size_class_large(size);
}

// Bytes of an object of the class.
static inline size_t class_size(unsigned class)
{
	if (class < 10)
		return class < 2 ? 8 : (class - 1) * (size_t)16;
	return (size_t)(5 + (class - 10) % 4) << (5 + (class - 10) / 4);
}

// The smallest class size that holds `size` bytes. `size` ≤ PTRDIFF_MAX.
static inline size_t class_round(size_t size)
{
	return class_size(size_class(size));
}

// The same beyond SMALL_MOST.
static inline size_t class_round_large(size_t size)
{
	return round_up(size, (size_t)1 << (lg_floor(size - 1) - 2));
}

// The size to ask for in place of `size` bytes at a multiple of `align`, a power of two: of the classes between two powers of two the first is as far from the
// one before as all others are, and all are multiples of that distance. So a class to which a multiple of the alignment is rounded up is a multiple of it, too.
static inline size_t aligned_request(size_t align, size_t size)
{
	return round_up(max_size(size, 1), align);
}
