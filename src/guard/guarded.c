// Guarded buffers: allocating, freeing, holding back.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/guarded.h"

#include <string.h>

#include "base/base.h"
#include "conf/umem_options.h"
#include "guard/fault.h"
#include "guard/fence.h"
#include "guard/log.h"
#include "guard/table.h"
#include "guard/trap.h"
#include "guard/verify.h"
#include "os/clock.h"
#include "os/stack.h"
#include "os/thread.h"

enum { LEAVING_WAIT_MS = 10 };

static _Atomic uint32_t mtbf;
static _Atomic uint64_t operations;

static const char taken_back_by[][72] = {
	[GUARD_MALLOC] = "allocated by malloc, not to be freed with this function",
	[GUARD_UMEM] = "allocated by umem_alloc, to be freed with umem_free",
	[GUARD_UMEM_ALIGN] = "allocated by umem_alloc_align, to be freed with umem_free_align",
	[GUARD_CACHE] = "allocated by umem_cache_alloc, to be freed with umem_cache_free",
};

void guard_init(void)
{
	guard_logs_init();
	guard_trap_init();
	guard_set_mtbf((uint32_t)umem_options.mtbf);
}

void guard_set_mtbf(uint32_t mean)
{
	atomic_store_explicit(&mtbf, mean, memory_order_relaxed);
}

static bool fails_by_wish(void)
{
	uint32_t mean = atomic_load_explicit(&mtbf, memory_order_relaxed);

	return mean != 0 && os_clock_ns() % mean == 0;
}

// One more step of a Weyl sequence, mixed (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
uint32_t guard_random(void)
{
	static _Atomic uint64_t steps;
	uint64_t mixed = atomic_fetch_add_explicit(&steps, GOLDEN, memory_order_relaxed) + os_random();

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)(mixed >> 32);
}

enum { CHANCE_PAINTED = 1, CHANCE_AUDITED = 2, CHANCE_CONTENTS = 4, CHANCE_ALL = 7 };

static void choose_aids(struct guard_cache *cache)
{
	unsigned chance = umem_options.random ? guard_random() : CHANCE_ALL;

	cache->painted = !cache->untouched && (chance & CHANCE_PAINTED) != 0;
	cache->audited = umem_options.audit_frames != 0 && (chance & CHANCE_AUDITED) != 0;
	cache->contents = !cache->untouched && (chance & CHANCE_CONTENTS) != 0;
}

void guard_cache_init(struct guard_cache *cache, const char *name, size_t object_bytes)
{
	size_t length = strlen(name);

	length = length < sizeof cache->name ? length : sizeof cache->name - 1;
	memcpy(cache->name, name, length);
	cache->name[length] = '\0';
	for (char *at = cache->name; *at != '\0'; at++)
		*at = (unsigned char)*at < ' ' ? '_' : *at;
	cache->object_bytes = object_bytes;
	choose_aids(cache);
	mutex_lock(&guard_table.lock);
	cache->next = guard_table.caches;
	guard_table.caches = cache;
	mutex_unlock(&guard_table.lock);
}

struct guard_cache *guard_caches(void)
{
	return guard_table.caches;
}

static void stamp(const struct guard_cache *cache, struct guard_stamp *stamp, uintptr_t *frames)
{
	if (!cache->audited)
		return;
	stamp->time_ns = os_clock_ns();
	stamp->thread = os_thread_number();
	stamp->frames = os_stack_trace(frames, (unsigned)umem_options.audit_frames);
}

// In the child of a fork amid it nothing is leaving any more.
static void has_left(struct guard_cache *cache)
{
	uint32_t leaving = atomic_load(&cache->leaving);

	while (leaving != 0 && !atomic_compare_exchange_weak(&cache->leaving, &leaving, leaving - 1))
		;
}

static void let_go(struct guarded *record, const char *call)
{
	if (!record->cache->sourced || !atomic_load(&record->cache->destroyed)) // else the program may have unmapped it
		verify_record(record, call);
	fence_lower(record);
	has_left(record->cache);
	base_free(record, guard_record_bytes());
}

// Buffers that were freed longest ago make room.
static void release_down_to(size_t most, const char *call)
{
	for (;;) {
		struct guarded *record;

		mutex_lock(&guard_table.lock);
		record = guard_table_release(most);
		mutex_unlock(&guard_table.lock);
		if (record == NULL)
			return;
		let_go(record, call);
	}
}

void guard_release_held(const char *call)
{
	release_down_to(0, call);
}

void guard_release_held_of(const struct guard_cache *cache, const char *call)
{
	struct guarded *record, *next;

	mutex_lock(&guard_table.lock);
	record = guard_table_release_of(cache);
	mutex_unlock(&guard_table.lock);
	for (; record != NULL; record = next) {
		next = record->newer;
		let_go(record, call);
	}
}

void guard_cache_await(struct guard_cache *cache)
{
	uint32_t leaving;

	while ((leaving = atomic_load(&cache->leaving)) != 0)
		os_word_wait(&cache->leaving, leaving, LEAVING_WAIT_MS);
}

// Every so many operations all buffers are looked at. With nosignal, each asks where it is called.
static void count_operation(const char *call)
{
	size_t every = umem_options.verify_every;

	if (umem_options.no_signal && os_stack_in_handler((unsigned)umem_options.audit_frames))
		guard_fault(&(struct guard_fault){ .call = call, .finding = "called in a signal handler" });

	if (every != 0 && (atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed) + 1) % every == 0)
		guard_verify(call, LOOK_AMID);
}

static struct guarded *record_create(struct guard_cache *cache, enum guard_face face, size_t size, size_t align)
{
	struct guarded *record = base_alloc(guard_record_bytes());

	if (record == NULL)
		return NULL;
	*record = (struct guarded){ .size = size, .cache = cache, .face = (uint8_t)face };
	if (fence_raise(record, align)) {
		fence_paint_fresh(record);
		stamp(cache, &record->allocated, guarded_frames(record));
		if (guard_table_add(record))
			return record;
		fence_lower(record);
	}
	base_free(record, guard_record_bytes());
	return NULL;
}

static void *allocation_failed(struct guard_cache *cache, size_t size)
{
	atomic_fetch_add_explicit(&cache->failures, 1, memory_order_relaxed);
	guard_log_failure(cache, size);
	return NULL;
}

static const char alloc_call[][20] = { "malloc", "umem_alloc", "umem_alloc_align", "umem_cache_alloc" };

void *guard_alloc(struct guard_cache *cache, enum guard_face face, size_t size, size_t align, bool may_fail)
{
	struct guarded *record;
	void *object;

	count_operation(alloc_call[face]);
	verify_newest(cache, alloc_call[face]);
	if (size > PTRDIFF_MAX / 2 || (may_fail && fails_by_wish()))
		return allocation_failed(cache, size);
	record = record_create(cache, face, size, align);
	if (record == NULL) {
		release_down_to(0, alloc_call[face]);
		record = record_create(cache, face, size, align);
	}
	if (record == NULL)
		return allocation_failed(cache, size);
	object = (void *)record->address;
	guard_log_transaction(EVENT_ALLOC, record, &record->allocated, guarded_frames(record));
	atomic_fetch_add_explicit(&cache->allocs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->live, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->live_bytes, size, memory_order_relaxed);
	return object;
}

// What is wrong with the call, or NULL.
static const char *finding(const struct guarded *record, const struct guard_cache *cache, enum guard_face face, size_t size)
{
	if (record->state != GUARD_LIVE)
		return "freed already";
	if (cache != NULL && record->cache != cache && record->face == GUARD_CACHE && face == GUARD_CACHE)
		return "a buffer of another cache";
	if (record->face != face)
		return taken_back_by[record->face];
	if (size != (size_t)GUARD_ANY_SIZE && size != record->size)
		return "freed with a wrong size";
	return NULL;
}

// The live record, in state `next` from now on; NULL: misuse, which was told.
static struct guarded *claim(struct guard_cache *cache, enum guard_face face, const void *object, size_t size,
			     const char *call, enum guard_state next)
{
	struct guarded_copy copy;
	struct guarded *record;
	const char *wrong;

	mutex_lock(&guard_table.lock);
	record = guard_table_find((uintptr_t)object, cache);
	wrong = record == NULL ? NULL : finding(record, cache, face, size);
	if (record != NULL && wrong == NULL)
		record->state = (uint8_t)next;
	if (wrong != NULL)
		memcpy(&copy, record, guard_record_bytes());
	mutex_unlock(&guard_table.lock);
	if (record != NULL && wrong == NULL)
		return record;
	if (record == NULL)
		verify_unknown(object, call);
	else
		guard_fault(&(struct guard_fault){ .call = call, .address = object, .finding = wrong, .buffer = &copy });
	return NULL;
}

bool guard_check(struct guard_cache *cache, enum guard_face face, const void *object, size_t size, const char *call)
{
	return claim(cache, face, object, size, call, GUARD_LIVE) != NULL;
}

struct guarded *guard_leave(struct guard_cache *cache, enum guard_face face, const void *object, size_t size, const char *call)
{
	struct guarded *record;

	count_operation(call);
	record = claim(cache, face, object, size, call, GUARD_LEAVING);
	if (record == NULL)
		return NULL;
	cache = record->cache;
	verify_record(record, call);
	if (!record->fenced)
		cache->end_sample((void *)record->block);
	stamp(cache, &record->freed, guarded_frames(record) + umem_options.audit_frames);
	guard_log_transaction(EVENT_FREE, record, &record->freed, guarded_frames(record) + umem_options.audit_frames);
	guard_log_contents(record);
	return record;
}

static void hold(struct guarded *record, const char *call)
{
	struct guard_cache *cache = record->cache;

	fence_paint_freed(record);
	atomic_fetch_add_explicit(&cache->frees, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->live, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->live_bytes, record->size, memory_order_relaxed);
	mutex_lock(&guard_table.lock);
	guard_table_hold(record);
	mutex_unlock(&guard_table.lock);
	release_down_to(umem_options.held_bytes, call);
}

void guard_hold(struct guarded *record, const char *call)
{
	verify_record(record, call); // a destructor may have written beyond the end
	hold(record, call);
}

void guard_free(struct guard_cache *cache, enum guard_face face, const void *object, size_t size, const char *call)
{
	struct guarded *record = guard_leave(cache, face, object, size, call);

	if (record != NULL)
		hold(record, call);
}

size_t guard_size(const void *object, const char *call)
{
	size_t size = 0;
	struct guarded *record;

	mutex_lock(&guard_table.lock);
	record = guard_table_find((uintptr_t)object, NULL);
	if (record != NULL && record->state != GUARD_HELD) // its destructor may ask
		size = record->size;
	mutex_unlock(&guard_table.lock);
	if (record == NULL || record->state == GUARD_HELD)
		claim(NULL, GUARD_MALLOC, object, (size_t)GUARD_ANY_SIZE, call, GUARD_LIVE);
	return size;
}

size_t guard_held_bytes(void)
{
	return guard_table.held_bytes;
}

void guard_fork_prepare(void)
{
	mutex_fork_lock(&guard_table.lock);
}

void guard_fork_done(bool child)
{
	for (struct guard_cache *cache = child ? guard_table.caches : NULL; cache != NULL; cache = cache->next)
		atomic_store(&cache->leaving, 0);
	mutex_fork_unlock(&guard_table.lock);
}
