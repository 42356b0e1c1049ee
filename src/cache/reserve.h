// Reserves: prefilled magazines lent to a caller that knows how many objects it may need.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"

// As vmag_cache_reserve, vmag_reserve_alloc, vmag_reserve_left and vmag_reserve_release (include/vmag/cache.h).
struct vmag_reserve *cache_reserve(struct vmag_cache *cache, size_t count, int flags);
void *reserve_alloc(struct vmag_reserve *reserve);
size_t reserve_left(const struct vmag_reserve *reserve);
void reserve_release(struct vmag_reserve *reserve);
