// Table of guarded buffers: records by address, and the queue of those that are held back. All under one lock.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "guard/guarded.h"
#include "os/mutex.h"

struct guard_table {
	struct mutex lock;
	// Under lock.
	struct guarded **buckets;
	unsigned lg_buckets;
	size_t records;
	struct guarded *oldest, *newest; // held back
	size_t held_bytes;
	struct guard_cache *caches;
};

extern struct guard_table guard_table;

// Bytes of a record with room for the frames that the options ask for.
size_t guard_record_bytes(void);

// False: no memory. Takes the lock.
bool guard_table_add(struct guarded *record);

// With the lock held. Of integers that are no memory several caches may have the same: that cache's buffer is found before another's.
struct guarded *guard_table_find(uintptr_t address, const struct guard_cache *cache);
void guard_table_hold(struct guarded *record);
// Takes the oldest out of queue and table if more than `most` bytes are held back, else NULL; it counts as leaving until the caller says otherwise.
struct guarded *guard_table_release(size_t most);
// All of a cache, linked by `newer`, the oldest first.
struct guarded *guard_table_release_of(const struct guard_cache *cache);
// Calls for every record until the function says true; that record, or NULL.
struct guarded *guard_table_each(bool (*function)(struct guarded *record, void *argument), void *argument);
// The same from a bucket on, there behind the record `after`, NULL: all; *bucket is that record's then.
struct guarded *guard_table_go_on(size_t *bucket, const struct guarded *after, bool (*function)(struct guarded *record, void *argument), void *argument);
