// Updates: what is looked at from time to time, for each cache: working set, magazine size, sparse slabs (2001, §3.4, §3.7).
//
// Whoever comes by at a miss does it, or the background thread. Magazines may grow every 200 ms. For the rest a cache whose
// objects cost nothing to construct is updated every 500 ms, others every 5 s: their objects are worth more than their memory.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"

// Updates the cache if it is due. May run destructors and the move callback; no locks are held.
void cache_update(struct vmag_cache *cache, uint64_t now_ms);

// A front of a thread or processor has missed some more times: they are in use.
void cache_note_look(struct vmag_cache *cache);

// Bytes of objects in the depot, and of the empty slab: what an update may give back. Read without a lock.
size_t cache_garbage(const struct vmag_cache *cache);
