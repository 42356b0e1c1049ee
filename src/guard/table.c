// Table of guarded buffers: a hash by address that doubles, and the queue.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/table.h"

#include "base/base.h"
#include "conf/umem_options.h"
#include "util/bits.h"

enum { LG_FIRST_BUCKETS = 12 };

struct guard_table guard_table = { .lock = MUTEX_INIT(RANK_GUARD) };

size_t guard_record_bytes(void)
{
	return sizeof(struct guarded) + 2 * umem_options.audit_frames * sizeof(uintptr_t);
}

static struct guarded **bucket_of(struct guarded **buckets, unsigned lg, uintptr_t address)
{
	return &buckets[hash_bits(address >> 3, lg)];
}

static void rehash(struct guarded **fresh, unsigned lg)
{
	size_t old = guard_table.buckets == NULL ? 0 : (size_t)1 << guard_table.lg_buckets;

	for (size_t i = 0; i < old; i++)
		for (struct guarded *record = guard_table.buckets[i], *next; record != NULL; record = next) {
			struct guarded **bucket = bucket_of(fresh, lg, record->address);

			next = record->hash_next;
			record->hash_next = *bucket;
			*bucket = record;
		}
	guard_table.buckets = fresh;
	guard_table.lg_buckets = lg;
}

// Old tables stay where they are: together they are no larger than the present one.
static bool grow(unsigned lg)
{
	struct guarded **fresh = base_alloc_pages(sizeof *fresh << lg);

	if (fresh == NULL)
		return false;
	mutex_lock(&guard_table.lock);
	if (guard_table.buckets == NULL || guard_table.lg_buckets < lg)
		rehash(fresh, lg);
	mutex_unlock(&guard_table.lock);
	return true;
}

bool guard_table_add(struct guarded *record)
{
	struct guarded **bucket;
	unsigned wanted;

	if (guard_table.buckets == NULL && !grow(LG_FIRST_BUCKETS))
		return false;
	mutex_lock(&guard_table.lock);
	bucket = bucket_of(guard_table.buckets, guard_table.lg_buckets, record->address);
	record->hash_next = *bucket;
	*bucket = record;
	wanted = ++guard_table.records >> guard_table.lg_buckets ? guard_table.lg_buckets + 1 : 0;
	mutex_unlock(&guard_table.lock);
	if (wanted != 0)
		grow(wanted);
	return true;
}

static bool may_be_of(const struct guarded *record, const struct guard_cache *cache)
{
	return record->cache->untouched ? record->cache == cache : cache == NULL || !cache->untouched;
}

struct guarded *guard_table_find(uintptr_t address, const struct guard_cache *cache)
{
	struct guarded *record, *other = NULL;

	if (guard_table.buckets == NULL)
		return NULL;
	record = *bucket_of(guard_table.buckets, guard_table.lg_buckets, address);
	for (; record != NULL; record = record->hash_next)
		if (record->address == address && may_be_of(record, cache))
			return record;
		else if (record->address == address)
			other = record;
	return other;
}

static void unhash(struct guarded *record)
{
	struct guarded **at = bucket_of(guard_table.buckets, guard_table.lg_buckets, record->address);

	while (*at != record)
		at = &(*at)->hash_next;
	*at = record->hash_next;
	guard_table.records--;
}

static size_t cost(const struct guarded *record)
{
	return record->block_bytes + guard_record_bytes();
}

void guard_table_hold(struct guarded *record)
{
	struct guard_cache *cache = record->cache;

	record->state = GUARD_HELD;
	record->newer = record->newer_of_cache = NULL;
	record->older = guard_table.newest;
	*(guard_table.newest != NULL ? &guard_table.newest->newer : &guard_table.oldest) = record;
	guard_table.newest = record;
	*(cache->newest_held != NULL ? &cache->newest_held->newer_of_cache : &cache->oldest_held) = record;
	cache->newest_held = record;
	guard_table.held_bytes += cost(record);
}

// The oldest of its cache.
static void leave(struct guarded *record)
{
	struct guard_cache *cache = record->cache;

	*(record->older != NULL ? &record->older->newer : &guard_table.oldest) = record->newer;
	*(record->newer != NULL ? &record->newer->older : &guard_table.newest) = record->older;
	cache->oldest_held = record->newer_of_cache;
	if (cache->oldest_held == NULL)
		cache->newest_held = NULL;
	guard_table.held_bytes -= cost(record);
	unhash(record);
	atomic_fetch_add(&cache->leaving, 1);
}

struct guarded *guard_table_release(size_t most)
{
	struct guarded *record = guard_table.oldest;

	if (record == NULL || guard_table.held_bytes <= most)
		return NULL;
	leave(record);
	return record;
}

struct guarded *guard_table_release_of(const struct guard_cache *cache)
{
	struct guarded *chain = NULL, **end = &chain, *record;

	while ((record = cache->oldest_held) != NULL) {
		leave(record);
		record->newer = NULL;
		*end = record;
		end = &record->newer;
	}
	return chain;
}

// Where `after` is no longer the bucket is passed over.
struct guarded *guard_table_go_on(size_t *bucket, const struct guarded *after, bool (*function)(struct guarded *record, void *argument), void *argument)
{
	size_t buckets = guard_table.buckets == NULL ? 0 : (size_t)1 << guard_table.lg_buckets;

	for (; *bucket < buckets; ++*bucket, after = NULL)
		for (struct guarded *record = guard_table.buckets[*bucket]; record != NULL; record = record->hash_next) {
			if (after == NULL && function(record, argument))
				return record;
			if (record == after)
				after = NULL;
		}
	return NULL;
}

struct guarded *guard_table_each(bool (*function)(struct guarded *record, void *argument), void *argument)
{
	size_t bucket = 0;

	return guard_table_go_on(&bucket, NULL, function, argument);
}
