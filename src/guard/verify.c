// Verification of guarded buffers: one, the newest freed one of a cache, or all.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/verify.h"

#include <string.h>

#include "conf/umem_options.h"
#include "guard/fault.h"
#include "guard/fence.h"
#include "guard/pattern.h"
#include "guard/table.h"
#include "os/memory.h"
#include "os/unseen.h"

// Damage of a record, put right again so that it is told once.
struct damage {
	long offset; // PATTERN_WHOLE: none
	uint8_t is, should;
	bool freed;
	struct guarded_copy copy;
};

struct verification {
	struct damage damage;
	enum guard_look look;
};

static bool find_damage(struct guarded *record, struct damage *damage)
{
	damage->freed = record->state == GUARD_HELD;
	damage->offset = damage->freed ? fence_broken_freed(record, &damage->should) : fence_broken_live(record, &damage->should);
	if (damage->offset == PATTERN_WHOLE)
		return false;
	damage->is = *(const uint8_t *)(record->address + (uintptr_t)damage->offset);
	memcpy(&damage->copy, record, guard_record_bytes());
	if (damage->freed)
		fence_paint_freed(record);
	else
		fence_paint_end(record);
	return true;
}

static struct guard_fault fault_of(const struct damage *damage, const char *call)
{
	return (struct guard_fault){
		.call = call, .address = (const void *)damage->copy.record.address,
		.finding = damage->freed ? "written after it was freed" : "written beyond the end of a buffer",
		.buffer = &damage->copy, .damaged = true, .offset = damage->offset, .is = damage->is, .should = damage->should,
	};
}

static void tell(const struct damage *damage, const char *call)
{
	struct guard_fault fault = fault_of(damage, call);

	guard_fault(&fault);
}

void verify_record(struct guarded *record, const char *call)
{
	struct damage damage;

	while (find_damage(record, &damage))
		tell(&damage, call);
}

void verify_newest(struct guard_cache *cache, const char *call)
{
	struct damage damage;
	bool found;

	if (cache->newest_held == NULL)
		return;
	mutex_lock(&guard_table.lock);
	found = cache->newest_held != NULL && find_damage(cache->newest_held, &damage);
	mutex_unlock(&guard_table.lock);
	if (found)
		tell(&damage, call);
}

// Whoever only asks is not to end the process by a fault, where the program has unmapped its arena's memory.
static bool is_there(const struct guarded *record)
{
	char byte;

	return os_memory_peek(&byte, (const void *)record->address, 1) &&
	       os_memory_peek(&byte, (const void *)(record->block + record->block_bytes - 1), 1);
}

// What is left of a cache that was destroyed, and at the end of the process all that lies in a program's arena, may be memory that the program has unmapped.
static bool is_damaged(struct guarded *record, void *verification_)
{
	struct verification *verification = verification_;

	if (record->state == GUARD_LEAVING || (record->cache->sourced && (verification->look == LOOK_AT_EXIT || atomic_load(&record->cache->destroyed))))
		return false;
	return (verification->look != LOOK_ON_REQUEST || !record->cache->sourced || is_there(record)) && find_damage(record, &verification->damage);
}

size_t guard_verify(const char *call, enum guard_look look)
{
	static _Atomic bool told; // on request, and put right
	struct verification verification = { .look = look };
	struct guarded *record = NULL;
	size_t bucket = 0, count = 0;

	do {
		mutex_lock(&guard_table.lock);
		record = guard_table_go_on(&bucket, record, is_damaged, &verification);
		mutex_unlock(&guard_table.lock);
		if (record != NULL) {
			struct guard_fault fault = fault_of(&verification.damage, call);

			if (look == LOOK_ON_REQUEST)
				guard_tell(&fault);
			else
				guard_fault(&fault);
		}
		count += record != NULL;
	} while (record != NULL);
	if (look == LOOK_ON_REQUEST && count > 0)
		atomic_store(&told, true);
	if (look == LOOK_AT_EXIT && atomic_load(&told) && !umem_options.no_abort)
		os_abort(); // as if nobody had asked
	return count;
}

struct copying {
	struct guarded *copies;
	size_t most, count;
};

static bool copy_record(struct guarded *record, void *argument)
{
	struct copying *copying = argument;

	if (copying->count < copying->most)
		copying->copies[copying->count] = *record;
	copying->count++;
	return false;
}

size_t guard_copy_all(struct guarded *copies, size_t most)
{
	struct copying copying = { copies, most, 0 };

	mutex_lock(&guard_table.lock);
	guard_table_each(copy_record, &copying);
	mutex_unlock(&guard_table.lock);
	return copying.count;
}

// A buffer's place is all of its memory, fences included.
static bool is_around(struct guarded *record, void *argument)
{
	uintptr_t address = *(uintptr_t *)argument;

	return address - record->block < record->block_bytes || address == record->address;
}

bool guard_find(uintptr_t address, struct guarded_copy *copy)
{
	struct guarded *record;

	mutex_lock(&guard_table.lock);
	record = guard_table_each(is_around, &address);
	if (record != NULL)
		memcpy(copy, record, guard_record_bytes());
	mutex_unlock(&guard_table.lock);
	return record != NULL;
}

bool guard_find_start(const struct guarded *buffer, struct guarded_copy *copy)
{
	struct guarded *record;

	mutex_lock(&guard_table.lock);
	record = guard_table_find(buffer->address, buffer->cache);
	if (record != NULL)
		memcpy(copy, record, guard_record_bytes());
	mutex_unlock(&guard_table.lock);
	return record != NULL;
}

void verify_unknown(const void *object, const char *call)
{
	struct guarded_copy copy;

	if (guard_find((uintptr_t)object, &copy))
		guard_fault(&(struct guard_fault){
			.call = call, .address = object, .finding = "not the start of a buffer, but inside one", .buffer = &copy });
	else
		guard_fault(&(struct guard_fault){
			.call = call, .address = object,
			.finding = "not a buffer: another allocator's, freed long ago, or no allocation at all" });
}
