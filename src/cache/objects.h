// Objects: how buffers of slabs become constructed objects and the other way round.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"

// Whether buffers are objects as they are, so that they may come and go in batches.
static inline bool cache_is_plain(const struct vmag_cache *cache)
{
	return cache->constructor == NULL && cache->destructor == NULL;
}

// Up to `count` raw buffers, as bin_fill leaves them; makes slabs. Returns how many, 0: no memory.
size_t cache_buffers(struct vmag_cache *cache, void **rounds, size_t count);

// A constructed object straight from a slab. NULL: no memory, or the constructor failed.
void *cache_construct(struct vmag_cache *cache, int flags);

// Destructs objects and puts them back into their slabs. Reports what is no object of the cache, or free already.
void cache_drain(struct vmag_cache *cache, void *const *rounds, size_t count);

// The same for a chain of magazines, which are destroyed; and for the depot's, all or what was not needed. False: there were none.
void cache_drain_chain(struct vmag_cache *cache, struct magazine *chain);
bool cache_drain_depot(struct vmag_cache *cache, bool everything);

// Around what takes rounds or buffers, which the program does not have, out of depot and slabs for a while: a walk waits until it is over.
void cache_carry(struct vmag_cache *cache);
void cache_carried(struct vmag_cache *cache);

// After a failure: asks for what others can spare. Then, for who may wait: waits until something came back, not for long.
void cache_relieve(struct vmag_cache *cache);
void cache_wait(struct vmag_cache *cache);
