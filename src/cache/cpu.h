// Object caches on fronts of processors (magazine/processors.h): a slot for each cache's id. What cache/front.h does for a thread.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"
#include "magazine/processors.h"

// After a miss: makes rounds available on this processor, or empty slots; the thread may be on another one when it tries again.
// False: neither the depot nor memory has any, or fronts are stopped.
bool cache_cpu_refill(struct vmag_cache *cache);
bool cache_cpu_make_room(struct vmag_cache *cache);

// All processors' magazines of the cache go to the depot; of all caches; of all caches, what was not used since the last time
// but one, at most twice a second (true: there may be more the next time).
void cache_cpu_flush(struct vmag_cache *cache);
void caches_cpu_flush(void);
bool caches_cpu_tidy(uint64_t now_ms);

// All processors' magazines of a cache that nobody uses any more, chained.
struct magazine *cache_cpu_collect(struct vmag_cache *cache);

// As cache_fronts_rounds.
size_t cache_cpu_rounds(struct vmag_cache *cache, void **out, size_t most);
