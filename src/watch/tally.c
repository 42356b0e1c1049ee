// Tallies: the table by key, numbers, counting up and down, forgetting.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/tally.h"

#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "cache/table.h"
#include "os/mutex.h"
#include "util/real.h"
#include "vmag/format.h"
#include "watch/black_box.h"

enum { LG_LISTS = 13 };

struct tally *_Atomic tally_blocks[TALLY_BLOCKS]; // written under the lock, read by anyone
_Atomic uint32_t tally_resets;
_Static_assert(sizeof(struct tally) << LG_TALLY_BLOCK == BASE_LARGEST, "a block is an object of base");

static struct {
	struct mutex lock;
	// Under lock.
	uint32_t lists[1 << LG_LISTS]; // numbers by hash
	uint32_t unused;               // numbers of forgotten ones without live objects
	// Written under lock, read by anyone.
	_Atomic uint32_t last;
} tallies = { .lock = MUTEX_INIT(RANK_PROFILE) };

uint32_t tallies_last(void)
{
	return atomic_load_explicit(&tallies.last, memory_order_acquire);
}

uint64_t sample_weight(uint64_t bytes, unsigned lg_sample)
{
	double size = (double)bytes;

	return lg_sample == 0 ? bytes : (uint64_t)(size / real_one_minus_exp(size / (double)(1ul << lg_sample)) + 0.5);
}

// A stack's tallies of one thread are in one list.
static size_t hash_of(const struct tally *key)
{
	return (size_t)((key->stack->hash.one ^ (uint64_t)key->thread << 24) * 0xff51afd7ed558ccdu >> (64 - LG_LISTS));
}

// 0: there is none. `neighbour`: one of the same stack and thread, or 0.
static uint32_t find(const struct tally *key, uint32_t *neighbour)
{
	uint32_t number = tallies.lists[hash_of(key)];

	for (*neighbour = 0; number != 0; number = tally_of(number)->next) {
		const struct tally *tally = tally_of(number);

		if (tally->stack != key->stack || tally->thread != key->thread)
			continue;
		if (tally->size == key->size && tally->arena == key->arena && tally->lg_sample == key->lg_sample)
			break;
		*neighbour = number;
	}
	return number;
}

// So that writers meet a thread's tallies one after the other.
static void link_to_stack(struct tally *tally, uint32_t number, uint32_t neighbour)
{
	_Atomic uint32_t *at = neighbour != 0 ? &tally_of(neighbour)->next_of_stack : &tally->stack->first_tally;

	tally->next_of_stack = *at;
	*at = number;
}

// A number that is free; 0: the block for it is missing.
static uint32_t take_number(void)
{
	uint32_t number = tallies.unused;

	if (number != 0) {
		tallies.unused = tally_of(number)->next;
		return number;
	}
	number = tallies.last + 1;
	if (number > TALLY_BLOCKS << LG_TALLY_BLOCK || tally_blocks[(number - 1) >> LG_TALLY_BLOCK] == NULL)
		return 0;
	return number;
}

static void tell_cache(unsigned id)
{
	struct vmag_cache *cache = cache_pin(id);

	if (cache == NULL)
		return;
	black_box_cache(id, cache->name);
	cache_unpin(cache);
}

// Under the lock.
static void tell_box(uint32_t number, uint64_t live, uint64_t total)
{
	const struct tally *tally = tally_of(number);

	if (atomic_load_explicit(&black_box, memory_order_relaxed) == NULL)
		return;
	if (tally->arena >= VMAG_ARENA_CACHES)
		tell_cache(tally->arena - VMAG_ARENA_CACHES);
	black_box_add(number, tally->stack, &(struct vmag_box_tally){
		.size = tally->size, .thread = tally->thread, .arena = tally->arena, .lg_sample = tally->lg_sample,
		.live = live, .total = total,
	});
}

static void count_in_box(uint32_t number, int live, int total)
{
	if (atomic_load_explicit(&black_box, memory_order_relaxed) != NULL)
		black_box_count(number, live, total);
}

// Under the lock, which others change `total` under, too.
static void count(uint32_t number, int by)
{
	struct tally *tally = tally_of(number);
	uint64_t total = atomic_load_explicit(&tally->total, memory_order_relaxed);

	// Who sees either sees all else of it, too.
	atomic_fetch_add_explicit(&tally->live, (uint64_t)(int64_t)by, memory_order_release);
	atomic_store_explicit(&tally->total, total + (uint64_t)(int64_t)by, memory_order_release);
	count_in_box(number, by, by);
}

static uint32_t insert(const struct tally *key, uint32_t neighbour)
{
	uint32_t number = take_number(), *list;
	struct tally *tally;

	if (number == 0)
		return 0;
	tally = tally_of(number);
	list = &tallies.lists[hash_of(key)];
	tally->stack = key->stack;
	tally->size = key->size;
	tally->thread = key->thread;
	tally->arena = key->arena;
	tally->lg_sample = key->lg_sample;
	atomic_store_explicit(&tally->total, 0, memory_order_relaxed); // the last sample of its former meaning may have come behind a reset
	tally->retired = false;
	tally->weighted = sample_weight(key->size, key->lg_sample);
	tally->next = *list;
	*list = number;
	link_to_stack(tally, number, neighbour);
	tell_box(number, 0, 0);
	if (number > tallies.last)
		atomic_store_explicit(&tallies.last, number, memory_order_release);
	return number;
}

// Memory for further tallies, got without the lock. False: there is none. Others may have used it up when we come to it.
static bool make_room(void)
{
	uint32_t block = tallies_last() >> LG_TALLY_BLOCK;
	struct tally *fresh = block < TALLY_BLOCKS && tally_blocks[block] == NULL ? base_alloc(BASE_LARGEST) : NULL;
	bool made;

	if (fresh != NULL)
		memset(fresh, 0, BASE_LARGEST);
	mutex_lock(&tallies.lock);
	if (fresh != NULL && tally_blocks[block] == NULL) {
		atomic_store_explicit(&tally_blocks[block], fresh, memory_order_release);
		fresh = NULL;
	}
	made = block < TALLY_BLOCKS && tally_blocks[block] != NULL;
	mutex_unlock(&tallies.lock);
	if (fresh != NULL)
		base_free(fresh, BASE_LARGEST);
	return made;
}

static uint32_t find_and_count(const struct tally *key)
{
	uint32_t number, neighbour;

	mutex_lock(&tallies.lock);
	number = find(key, &neighbour);
	if (number == 0)
		number = insert(key, neighbour);
	if (number != 0)
		count(number, 1);
	mutex_unlock(&tallies.lock);
	return number;
}

uint32_t tally_count(const struct tally *key)
{
	uint32_t number;

	do
		number = find_and_count(key);
	while (number == 0 && make_room());
	return number;
}

void tally_freed(uint32_t tally)
{
	atomic_fetch_add_explicit(&tally_of(tally)->live, (uint64_t)-1, memory_order_release);
	count_in_box(tally, -1, 0);
}

void tally_cancel(uint32_t tally)
{
	mutex_lock(&tallies.lock);
	count(tally, -1);
	mutex_unlock(&tallies.lock);
}

// Tallies that objects still name are kept, retired, until another reset finds them without.
static void retire(uint32_t number)
{
	struct tally *tally = tally_of(number);

	tally->retired = true;
	black_box_forget(number);
	atomic_store_explicit(&tally->total, 0, memory_order_relaxed);
	if (atomic_load(&tally->live) != 0)
		return;
	tally->next = tallies.unused;
	tallies.unused = number;
}

void tallies_forget(void)
{
	mutex_lock(&tallies.lock);
	atomic_fetch_add(&tally_resets, 1);
	tallies.unused = 0;
	if (tallies.last != 0) // or all are 0, on pages that were never touched
		memset(tallies.lists, 0, sizeof tallies.lists);
	for (struct stack *stack = stacks_newest(); stack != NULL; stack = stack->older)
		stack->first_tally = 0;
	for (uint32_t number = 1; number <= tallies.last; number++)
		retire(number);
	mutex_unlock(&tallies.lock);
}

bool tally_is_told(const struct tally *tally)
{
	return (atomic_load_explicit(&tally->live, memory_order_acquire) | atomic_load_explicit(&tally->total, memory_order_acquire)) != 0;
}

static void estimate_add_told(struct estimate *sum, const struct tally *tally)
{
	double rate = (double)(1ul << tally->lg_sample), size = (double)tally->size;
	double p = tally->lg_sample == 0 ? 1 : real_one_minus_exp(size / rate);
	double live = (double)atomic_load_explicit(&tally->live, memory_order_relaxed) / p;
	double total = (double)atomic_load_explicit(&tally->total, memory_order_relaxed) / p;

	if (tally->retired)
		return;
	sum->live_objects += live;
	sum->live_bytes += live * size;
	sum->total_objects += total;
	sum->total_bytes += total * size;
}

void estimate_add(struct estimate *sum, const struct tally *tally)
{
	if (tally_is_told(tally))
		estimate_add_told(sum, tally);
}

void tallies_tell_box(void)
{
	mutex_lock(&tallies.lock);
	for (uint32_t number = 1; number <= tallies.last; number++)
		if (!tally_of(number)->retired)
			tell_box(number, atomic_load(&tally_of(number)->live), atomic_load(&tally_of(number)->total));
	mutex_unlock(&tallies.lock);
}

COLD void tallies_tell(struct vmag_root *root)
{
	root->tally_blocks = (uintptr_t)tally_blocks;
	root->tally_count = (uintptr_t)&tallies.last;
	root->tallies_a_block = 1 << LG_TALLY_BLOCK;
	root->tally_bytes = sizeof(struct tally);
	root->tally_stack = offsetof(struct tally, stack);
	root->tally_size = offsetof(struct tally, size);
	root->tally_thread = offsetof(struct tally, thread);
	root->tally_arena = offsetof(struct tally, arena);
	root->tally_lg_sample = offsetof(struct tally, lg_sample);
	root->tally_retired = offsetof(struct tally, retired);
	root->tally_live = offsetof(struct tally, live);
	root->tally_total = offsetof(struct tally, total);
}

struct mutex *tallies_mutex(void)
{
	return &tallies.lock;
}

void tallies_fork_prepare(void)
{
	mutex_fork_lock(&tallies.lock);
}

void tallies_fork_done(void)
{
	mutex_fork_unlock(&tallies.lock);
}
