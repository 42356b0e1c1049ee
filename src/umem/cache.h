// Caches with libumem's rules over object caches.
//
// A plain cache is an object cache (vmag/cache.h), whose constructor is called with libumem's flags. While debugging, an object
// is a guarded buffer: it is constructed at each allocation and destructed at each free, and the object cache below has raw
// buffers with room for the red zone. UMC_NODEBUG and a process that is not debugged give plain ones.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <umem.h>
#include <vmag/cache.h>

#include "guard/guarded.h"

struct umem_cache {
	// Constant after creation.
	umem_constructor_t *constructor; // first: base keeps its list in the first word of what is free, and who destroys a cache twice shall be told
	vmag_cache_t *objects;
	umem_destructor_t *destructor;
	umem_reclaim_t *reclaim;
	void *argument;
	size_t size, align;
	bool guarded;
	struct guard_cache guard; // when guarded
};

// Whether it is the object cache below a guarded one; whether that is one of the program's caches.
bool umem_cache_is_below(const vmag_cache_t *objects);
bool umem_cache_guards(const struct guard_cache *cache);
