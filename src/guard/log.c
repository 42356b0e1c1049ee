// Logs of guarded buffers: rings in base's memory.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/log.h"

#include <string.h>

#include "base/base.h"
#include "conf/umem_options.h"
#include "os/clock.h"
#include "os/stack.h"
#include "os/thread.h"
#include "util/bits.h"

static struct ring {
	char *entries; // NULL: no such log
	size_t entry_bytes, room;
	_Atomic uint64_t written;
} rings[GUARD_LOGS];

bool guard_logs_slabs;

static void ring_init(enum guard_log log, size_t bytes, size_t entry_bytes)
{
	size_t room = bytes / round_up(entry_bytes, 8);

	if (bytes == 0)
		return;
	room = max_size(room, 1);
	rings[log].entry_bytes = round_up(entry_bytes, 8);
	rings[log].entries = base_alloc_pages(room * rings[log].entry_bytes);
	rings[log].room = rings[log].entries == NULL ? 0 : room;
}

void guard_logs_init(void)
{
	size_t entry = sizeof(struct guard_entry) + umem_options.audit_frames * sizeof(uintptr_t);

	if (umem_options.audit_frames > 0) {
		ring_init(LOG_TRANSACTION, umem_options.log_transaction, entry);
		ring_init(LOG_CONTENTS, umem_options.log_contents, entry + umem_options.contents_bytes);
	}
	ring_init(LOG_FAIL, umem_options.log_fail, entry);
	ring_init(LOG_SLAB, umem_options.log_slab, entry);
	guard_logs_slabs = rings[LOG_SLAB].room > 0;
}

static struct guard_entry *entry_at(const struct ring *ring, uint64_t number)
{
	return (struct guard_entry *)(void *)(ring->entries + number % ring->room * ring->entry_bytes);
}

static struct guard_entry *ring_next(enum guard_log log)
{
	struct ring *ring = &rings[log];

	if (ring->room == 0)
		return NULL;
	return entry_at(ring, atomic_fetch_add_explicit(&ring->written, 1, memory_order_relaxed));
}

static void entry_fill(struct guard_entry *entry, enum guard_event event, const struct guarded *record,
		       const struct guard_stamp *stamp, const uintptr_t *frames)
{
	*entry = (struct guard_entry){ .event = (uint8_t)event, .frames = (uint8_t)stamp->frames, .thread = stamp->thread,
				       .time_ns = stamp->time_ns, .address = record->address, .size = record->size,
				       .cache = record->cache };
	memcpy(entry->frame, frames, stamp->frames * sizeof *frames);
}

void guard_log_transaction(enum guard_event event, const struct guarded *record, const struct guard_stamp *stamp,
			   const uintptr_t *frames)
{
	struct guard_entry *entry = record->cache->audited ? ring_next(LOG_TRANSACTION) : NULL;

	if (entry != NULL)
		entry_fill(entry, event, record, stamp, frames);
}

void guard_log_contents(const struct guarded *record)
{
	struct guard_entry *entry = record->cache->contents ? ring_next(LOG_CONTENTS) : NULL;

	if (entry == NULL)
		return;
	entry_fill(entry, EVENT_FREE, record, &record->freed, guarded_frames(record) + umem_options.audit_frames);
	entry->contents = min_size(record->size, umem_options.contents_bytes);
	memcpy(entry->frame + entry->frames, (const void *)record->address, entry->contents);
}

void guard_log_failure(const struct guard_cache *cache, size_t size)
{
	struct guard_entry *entry = ring_next(LOG_FAIL);

	if (entry == NULL)
		return;
	*entry = (struct guard_entry){ .event = EVENT_FAIL, .thread = os_thread_number(), .time_ns = os_clock_ns(),
				       .size = size, .cache = cache };
	entry->frames = (uint8_t)os_stack_trace(entry->frame, (unsigned)umem_options.audit_frames);
}

void guard_log_slab(enum guard_event event, uintptr_t start, size_t bytes, size_t object_bytes)
{
	struct guard_entry *entry = ring_next(LOG_SLAB);

	if (entry == NULL)
		return;
	*entry = (struct guard_entry){ .event = (uint8_t)event, .thread = os_thread_number(), .time_ns = os_clock_ns(),
				       .address = start, .size = bytes, .object_bytes = object_bytes };
	entry->frames = (uint8_t)os_stack_trace(entry->frame, (unsigned)umem_options.audit_frames);
}

void guard_log_each(enum guard_log log, size_t most, void (*function)(const struct guard_entry *entry, void *argument), void *argument)
{
	uint64_t written = guard_log_written(log);
	size_t count = min_size(min_size(most, rings[log].room), written);

	for (size_t i = 1; i <= count; i++)
		function(entry_at(&rings[log], written - i), argument);
}

size_t guard_log_room(enum guard_log log)
{
	return rings[log].room;
}

uint64_t guard_log_written(enum guard_log log)
{
	return atomic_load_explicit(&rings[log].written, memory_order_relaxed);
}

const char *guard_log_name(enum guard_log log)
{
	static const char names[GUARD_LOGS][12] = { "transaction", "contents", "fail", "slab" };

	return names[log];
}
