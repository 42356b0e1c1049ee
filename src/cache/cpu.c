// Object caches on fronts of processors: reloading, giving back.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/cpu.h"

#include <string.h>

#include "cache/front.h"
#include "cache/objects.h"
#include "cache/table.h"

_Static_assert((int)CACHES_MOST == (int)PROCESSOR_CACHES, "a slot for each cache");

static unsigned next_batch(const struct vmag_cache *cache, struct processor_slot *slot)
{
	unsigned batch = slot->batch != 0 ? slot->batch : cache_first_batch(cache);

	slot->batch = (uint8_t)min_size(batch * 2u, CACHE_BATCH_MOST);
	return batch;
}

// Into an empty magazine or NULL. NULL: no memory, or the constructor has to be asked for each.
static struct magazine *fill(struct vmag_cache *cache, struct magazine *magazine, unsigned batch)
{
	size_t wanted, got;

	if (magazine == NULL)
		magazine = cache_new_magazine(cache);
	if (magazine == NULL)
		return NULL;
	wanted = min_size(batch, magazine->capacity);
	got = cache_buffers(cache, magazine->round, wanted);
	memmove(magazine->round, magazine->round + wanted - got, got * sizeof(void *));
	magazine->rounds = (uint32_t)got;
	return magazine;
}

static void bring(struct vmag_cache *cache, struct processor *processor, struct magazine *magazine)
{
	struct magazine *left = processor_bring(processor, processor_slot_of_cache(cache->id), magazine);

	if (left != NULL)
		cache_leave_magazine(cache, left);
}

bool cache_cpu_refill(struct vmag_cache *cache)
{
	unsigned slot = processor_slot_of_cache(cache->id), batch = 0;
	struct processor *processor = processor_enter();
	struct magazine *hand, *full;
	bool filled;

	if (processor == NULL)
		return false;
	enum found found = processor_find_rounds(processor, slot, cache_wanted_rounds(cache), &hand);
	if (found == FOUND_NOTHING)
		batch = next_batch(cache, &processor->slots[slot]);
	processor_leave(processor);
	if (found != FOUND_NOTHING) {
		if (hand != NULL)
			magazine_destroy(hand);
		return true;
	}
	hand = cache_outgrown(cache, hand);
	full = depot_take_full(&cache->depot, hand, NULL);
	if (full == NULL)
		full = cache_is_plain(cache) ? fill(cache, hand, batch) : hand;
	if (full == NULL)
		return false;
	filled = full->rounds > 0;
	bring(cache, processor, full);
	return filled;
}

bool cache_cpu_make_room(struct vmag_cache *cache)
{
	struct processor *processor = processor_enter();
	struct magazine *hand, *empty = NULL;

	if (processor == NULL)
		return false;
	enum found found = processor_find_slots(processor, processor_slot_of_cache(cache->id), &hand);
	processor_leave(processor);
	if (found != FOUND_NOTHING)
		return true;
	if (hand != NULL)
		empty = cache_outgrown(cache, depot_take_empty(&cache->depot, hand, NULL));
	if (empty == NULL)
		empty = cache_new_magazine(cache);
	if (empty == NULL)
		return false;
	bring(cache, processor, empty);
	return true;
}

// A cache that is being destroyed is emptied by who destroys it.
static bool give(void *unused, unsigned slot, struct magazine *magazine)
{
	struct vmag_cache *cache = cache_of_id(slot - PROCESSOR_CLASSES);

	(void)unused;
	if (cache != NULL)
		cache_leave_magazine(cache, magazine);
	return cache != NULL;
}

void cache_cpu_flush(struct vmag_cache *cache)
{
	unsigned slot = processor_slot_of_cache(cache->id);

	if (cpu_nowhere != NULL)
		processors_collect(slot, slot + 1, true, give, NULL);
}

static bool collect(bool everything)
{
	return processors_collect(PROCESSOR_CLASSES, processor_slot_of_cache(caches_end()), everything, give, NULL);
}

void caches_cpu_flush(void)
{
	if (cpu_nowhere != NULL)
		collect(true);
}

bool caches_cpu_tidy(uint64_t now_ms)
{
	static _Atomic uint64_t tidied_at; // ms
	static _Atomic bool more;          // something idle was left then
	uint64_t last = atomic_load_explicit(&tidied_at, memory_order_relaxed);

	if (cpu_nowhere == NULL)
		return false;
	if ((int64_t)(now_ms - last) >= TIDY_MS && atomic_compare_exchange_strong(&tidied_at, &last, now_ms))
		atomic_store_explicit(&more, collect(false), memory_order_relaxed);
	return atomic_load_explicit(&more, memory_order_relaxed);
}

struct magazine *cache_cpu_collect(struct vmag_cache *cache)
{
	return cpu_nowhere != NULL ? processors_take(processor_slot_of_cache(cache->id)) : NULL;
}

struct copy {
	void **out;
	size_t most, count;
};

static void look(void *copy_, unsigned slot, const struct magazine *magazine, size_t rounds)
{
	struct copy *copy = copy_;

	(void)slot;
	rounds = min_size(rounds, copy->most - copy->count);
	if (copy->out != NULL)
		memcpy(copy->out + copy->count, magazine->round, rounds * sizeof(void *));
	copy->count += rounds;
}

size_t cache_cpu_rounds(struct vmag_cache *cache, void **out, size_t most)
{
	struct copy copy = { out, most, 0 };
	unsigned slot = processor_slot_of_cache(cache->id);

	if (cpu_nowhere != NULL)
		processors_look(slot, slot + 1, look, &copy);
	return copy.count;
}
