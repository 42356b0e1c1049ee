// Reserves: prefilled magazines lent to a caller that knows how many objects it may need.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "cache/cache.h"

struct vmag_reserve *cache_reserve(struct vmag_cache *cache, size_t count, int flags);
void *reserve_alloc(struct vmag_reserve *reserve);
size_t reserve_left(const struct vmag_reserve *reserve);
void reserve_release(struct vmag_reserve *reserve);
