// Logs: of guarded buffers the last allocations and frees and what freed buffers held; failures; slabs. UMEM_LOGGING sets the sizes.
//
// A log is a ring of entries of one size. Writers take a place each without a lock; an entry that is being overwritten while
// it is read may be mixed of two.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "guard/guarded.h"
#include "util/bits.h"

enum guard_log { LOG_TRANSACTION, LOG_CONTENTS, LOG_FAIL, LOG_SLAB, GUARD_LOGS };
enum guard_event { EVENT_ALLOC = 1, EVENT_FREE, EVENT_FAIL, EVENT_SLAB_MADE, EVENT_SLAB_DESTROYED };

struct guard_entry {
	uint8_t event; // 0: never written
	uint8_t frames;
	int thread;
	uint64_t time_ns;
	uintptr_t address;
	size_t size;
	const struct guard_cache *cache; // NULL: of a slab, or nothing was debugged
	size_t object_bytes;             // of a slab
	size_t contents; // bytes behind the frames
	uintptr_t frame[];
};

// Makes the logs that the options ask for, as far as there is memory.
void guard_logs_init(void);

// Notes what the stamp says in the log of transactions.
void guard_log_transaction(enum guard_event event, const struct guarded *record, const struct guard_stamp *stamp,
			   const uintptr_t *frames);
void guard_log_contents(const struct guarded *record);
void guard_log_failure(const struct guard_cache *cache, size_t size);

// Slabs made and destroyed, where that is logged.
extern bool guard_logs_slabs HIDDEN;
void guard_log_slab(enum guard_event event, uintptr_t start, size_t bytes, size_t object_bytes);

// Calls for the entries of a log, newest first, up to `most`.
void guard_log_each(enum guard_log log, size_t most, void (*function)(const struct guard_entry *entry, void *argument), void *argument);

// Entries that fit, and that were written so far; 0 when there is no such log.
size_t guard_log_room(enum guard_log log);
uint64_t guard_log_written(enum guard_log log);
const char *guard_log_name(enum guard_log log);
