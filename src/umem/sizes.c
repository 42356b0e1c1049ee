// The sizes of umem_alloc: the table, and buffers by it.
// SPDX-License-Identifier: BSD-2-Clause
#include "umem/sizes.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "cache/front.h"
#include "conf/umem_options.h"
#include "guard/report.h"
#include "heap/fast.h"
#include "heap/size_class.h"
#include "util/format.h"
#include "vmag/cache.h"

enum { LG_STEP = 3, STEPS = UMEM_SIZE_MOST >> LG_STEP, CLASSES_MOST = 64, NONE = 0 };
enum { PAGES_LEAST = SLAB_MOST + 1 }; // malloc gives pages from here on

// Sizes in ascending order, multiples of a step, from 1 on; 0 is none.
struct sizes {
	unsigned count;
	struct size {
		uint32_t bytes;
		bool added;
		struct vmag_cache *_Atomic cache; // of an added one, once it was needed
	} of[1 + CLASSES_MOST + UMEM_SIZE_CHANGES];
	uint8_t by_step[STEPS + 1]; // the least size that holds so many steps
};

_Static_assert(CLASSES_MOST + UMEM_SIZE_CHANGES <= UINT8_MAX, "a byte tells a size");

static struct sizes *_Atomic table;
static _Atomic enum state { UNDECIDED, AS_MALLOC, CHANGED } state;

// The first size that is not smaller.
static unsigned place_of(const struct sizes *sizes, uint32_t bytes)
{
	unsigned place = 1;

	while (place <= sizes->count && sizes->of[place].bytes < bytes)
		place++;
	return place;
}

static void move(struct sizes *sizes, unsigned from, unsigned to)
{
	memmove(&sizes->of[to], &sizes->of[from], (sizes->count + 1 - from) * sizeof sizes->of[0]);
	sizes->count += to - from;
}

static void insert(struct sizes *sizes, uint32_t bytes, bool added)
{
	unsigned place = place_of(sizes, bytes);

	if (place > sizes->count || sizes->of[place].bytes != bytes)
		move(sizes, place, place + 1);
	else if (!sizes->of[place].added)
		return; // malloc has it
	memset(&sizes->of[place], 0, sizeof sizes->of[place]);
	sizes->of[place].bytes = bytes;
	sizes->of[place].added = added;
}

static void remove_one(struct sizes *sizes, uint32_t bytes)
{
	unsigned place = place_of(sizes, bytes);

	if (place <= sizes->count && sizes->of[place].bytes == bytes)
		move(sizes, place + 1, place);
}

static void apply(struct sizes *sizes, const struct umem_size_change *change)
{
	uint32_t bytes = (uint32_t)round_up(change->bytes, (size_t)1 << LG_STEP);

	if (change->added)
		insert(sizes, bytes, true);
	else if (bytes == 0)
		sizes->count = 0;
	else
		remove_one(sizes, bytes);
}

static void fill_steps(struct sizes *sizes)
{
	for (unsigned step = 1, place = 1; step <= STEPS; step++) {
		while (place <= sizes->count && sizes->of[place].bytes < step << LG_STEP)
			place++;
		sizes->by_step[step] = place <= sizes->count ? (uint8_t)place : NONE;
	}
}

static struct sizes *create(void)
{
	struct sizes *sizes = base_alloc_table(sizeof *sizes);

	if (sizes == NULL)
		return NULL;
	memset(sizes, 0, sizeof *sizes);
	for (unsigned class = 1; class_size(class) <= UMEM_SIZE_MOST; class++)
		insert(sizes, (uint32_t)class_size(class), false);
	for (unsigned i = 0; i < umem_size_changes_count; i++)
		apply(sizes, &umem_size_changes[i]);
	fill_steps(sizes);
	return sizes;
}

// Of several threads one decides for all.
static enum state decide(void)
{
	struct sizes *none = NULL, *fresh = umem_size_changes_count > 0 ? create() : NULL;
	enum state before = UNDECIDED, now = fresh != NULL ? CHANGED : AS_MALLOC;

	if (fresh != NULL && !atomic_compare_exchange_strong(&table, &none, fresh))
		base_free_table(fresh, sizeof *fresh);
	return atomic_compare_exchange_strong(&state, &before, now) ? now : before;
}

bool umem_sizes_changed(void)
{
	enum state now = atomic_load_explicit(&state, memory_order_acquire);

	return (LIKELY(now != UNDECIDED) ? now : decide()) == CHANGED;
}

static struct size *size_for(size_t bytes)
{
	struct sizes *sizes = atomic_load_explicit(&table, memory_order_acquire);

	return &sizes->of[bytes <= UMEM_SIZE_MOST ? sizes->by_step[(bytes + (1u << LG_STEP) - 1) >> LG_STEP] : NONE];
}

// As libumem: multiples of 64 at multiples of 64.
static struct vmag_cache *create_cache(struct size *size)
{
	struct vmag_cache *none = NULL, *cache;
	char name[32];

	text_print(name, sizeof name, "umem_alloc_%u", size->bytes);
	cache = vmag_cache_create(name, size->bytes, size->bytes % 64 == 0 ? 64 : 0, NULL, NULL, NULL, NULL, NULL, 0);
	if (cache != NULL)
		cache->free_name = "umem_free";
	if (cache != NULL && !atomic_compare_exchange_strong(&size->cache, &none, cache)) {
		vmag_cache_destroy(cache);
		cache = none;
	}
	return cache;
}

static struct vmag_cache *cache_of(struct size *size)
{
	struct vmag_cache *cache = atomic_load_explicit(&size->cache, memory_order_acquire);

	return LIKELY(cache != NULL) ? cache : create_cache(size);
}

// What malloc is asked for in place of `bytes`.
static size_t bytes_of(const struct size *size, size_t bytes)
{
	return size->bytes != 0 ? size->bytes : max_size(bytes, PAGES_LEAST);
}

static __attribute__((noinline)) void *added_alloc(struct size *size)
{
	struct vmag_cache *cache = cache_of(size);

	return cache != NULL ? vmag_cache_alloc(cache, VMAG_NOSLEEP) : NULL;
}

void *umem_sizes_alloc(size_t bytes)
{
	struct size *size = size_for(bytes);
	struct vmag_cache *cache = atomic_load_explicit(&size->cache, memory_order_acquire);
	void *object = cache != NULL ? cache_front_pop(cache) : NULL;

	if (LIKELY(object != NULL))
		return object;
	return size->added ? added_alloc(size) : fast_malloc(bytes_of(size, bytes), heap_malloc);
}

static void free_slow(void *buffer, size_t bytes)
{
	heap_free_sized(buffer, 0, bytes, "umem_free");
}

void umem_sizes_free(void *buffer, size_t bytes)
{
	struct size *size = size_for(bytes);
	struct vmag_cache *cache = size->added ? cache_of(size) : NULL;

	if (!size->added)
		fast_free_sized(buffer, bytes_of(size, bytes), free_slow);
	else if (cache == NULL)
		guard_report("umem_free", buffer, "freed with size %zu, of which nobody was given a buffer", bytes);
	else if (!cache_front_push(cache, buffer))
		vmag_cache_free(cache, buffer);
}
