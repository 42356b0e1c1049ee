// Verification of guarded buffers: damage found and told.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "guard/guarded.h"

// A record that nobody else uses: behind live data, or in freed data.
void verify_record(struct guarded *record, const char *call);

// The buffer of the cache that was freed last.
void verify_newest(struct guard_cache *cache, const char *call);

// Reports an address that is not the start of a buffer.
void verify_unknown(const void *object, const char *call);
