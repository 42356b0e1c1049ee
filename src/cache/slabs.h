// Slabs of object caches: where they come from, how they are cut, and how one is found.
//
//   start                                                                      start + slab_bytes
//   [ colour │ buffer 0 │ buffer 1 │ … │ buffer n−1 │ rest ]
//
// The colour differs from slab to slab, a multiple of the alignment up to the rest, so that the first objects of slabs do not
// all fall on the same lines of the processor's caches (1994; 2001). Nothing of ours lies in a slab: header and bitmap are in
// base's memory, so a slab may be integers of any arena.
//
// A slab of heap pages is found by the page map. Another source's slab is found by its address in a hash of windows of
// 2^lg_window ≥ slab_bytes: the slab that holds an address begins in the address's window or in the one before.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"

struct cache_slab {
	struct cache_slab *next, **back; // all slabs of the cache
	struct cache_slab *chain;        // in a bucket
	uintptr_t start;
};

// The slab follows.
static inline struct slab *cache_slab_body(struct cache_slab *head)
{
	return (struct slab *)(void *)(head + 1);
}

extern const struct slab_source cache_slab_source;

// How slabs are cut: waste at most an eighth. `slab_bytes` 0: chosen. buffers 0: impossible sizes.
struct slab_shape cache_shape(size_t stride, size_t quantum, size_t slab_bytes, size_t total, int flags);

// The pages of all caches without a source.
extern struct pages cache_pages;

// The cache is destroyed: slabs with live objects stay what they are to the program, and nothing to us; the others go back.
void cache_slabs_abandon(struct vmag_cache *cache);
