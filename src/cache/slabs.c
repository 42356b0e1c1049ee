// Slabs of object caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/slabs.h"

#include <string.h>

#include "base/base.h"
#include "os/pages.h"
#include "pages/page_map.h"

enum {
	BUFFERS_MOST = 32768,       // in a slab: a bitmap of 4 KiB
	SLAB_LEAST = 16 * 1024,     // bytes of a slab of heap pages
	QUANTUM_BUFFERS = 64,       // in a quantum cache's slab, at least
	FEW_BUFFERS = 4,            // in a slab, at least, of buffers up to
	FEW_LARGEST = 32 * 1024,    // that size
	SHAPES_LOOKED_AT = 8,       // numbers of buffers that are tried
	SLABS_OF_SMALL = 32,        // at least, where a source has that many quanta and no more than it has now
	LG_FIRST_BUCKETS = 4,
};

struct pages cache_pages;

static struct cache_slab *head_of(struct slab *slab)
{
	return (struct cache_slab *)(void *)slab - 1;
}

static struct vmag_cache *cache_of_bin(struct bin *bin)
{
	return (struct vmag_cache *)(void *)((char *)bin - offsetof(struct vmag_cache, bin));
}

static bool from_heap(const struct vmag_cache *cache)
{
	return cache->source.import == NULL;
}

static struct slab_shape shape_of(size_t stride, size_t slab_bytes)
{
	size_t buffers = min_size(slab_bytes / stride, BUFFERS_MOST);

	return (struct slab_shape){
		.size = stride,
		.slab_bytes = slab_bytes,
		.buffers = (uint32_t)buffers,
		.reciprocal = stride == 1 || slab_bytes >> 32 != 0 ? 0 : (uint32_t)((((uint64_t)1 << 32) + stride - 1) / stride),
	};
}

// The number of buffers from which on sizes are tried. Of a resource without pages, 64 at once: a slab for each id would be
// a waste of ours. Memory is no such resource: its source may be small.
static size_t first_buffers(size_t stride, size_t quantum, int flags)
{
	if ((flags & VMAG_CACHE_QUANTUM) || ((flags & VMAG_CACHE_NOTOUCH) && quantum < os_page_size()))
		return QUANTUM_BUFFERS;
	if (quantum < os_page_size())
		return max_size(min_size(SLAB_LEAST / stride, QUANTUM_BUFFERS), 1);
	return max_size(SLAB_LEAST / stride, stride <= FEW_LARGEST ? FEW_BUFFERS : 1);
}

// A small source shall not be used up by a slab that does not fit into what is left, nor all of it by the slabs of others.
static size_t buffers_of_small(size_t total, size_t stride, size_t buffers)
{
	return total == 0 ? buffers : min_size(buffers, max_size(total / SLABS_OF_SMALL / stride, 1));
}

static size_t waste_of(const struct slab_shape *shape)
{
	return shape->slab_bytes - shape->buffers * shape->size;
}

struct slab_shape cache_shape(size_t stride, size_t quantum, size_t slab_bytes, size_t total, int flags)
{
	struct slab_shape best = { .buffers = 0 }, shape;
	size_t first;

	if (stride > PTRDIFF_MAX / (4 * QUANTUM_BUFFERS) || quantum > PTRDIFF_MAX / 4)
		return best;
	if (slab_bytes != 0)
		return shape_of(stride, round_up(slab_bytes, quantum));
	first = buffers_of_small(total, stride, first_buffers(stride, quantum, flags));
	if (flags & VMAG_CACHE_QUANTUM)
		return shape_of(stride, round_up((size_t)1 << lg_ceil(first * stride), quantum));
	for (size_t buffers = first; buffers < first + SHAPES_LOOKED_AT; buffers++) {
		shape = shape_of(stride, round_up(buffers * stride, quantum));
		if (total != 0 && best.buffers != 0 && shape.slab_bytes > max_size(total / SLABS_OF_SMALL, best.slab_bytes))
			break;
		if (best.buffers == 0 || waste_of(&shape) * best.slab_bytes < waste_of(&best) * shape.slab_bytes)
			best = shape;
		if (waste_of(&best) <= best.slab_bytes / 64)
			break;
	}
	return best;
}

static size_t head_bytes(const struct bin *bin)
{
	return sizeof(struct cache_slab) + slab_header_bytes(&bin->shape, 0);
}

static struct cache_slab **bucket(const struct vmag_cache *cache, uintptr_t window)
{
	return &cache->buckets[hash_bits(window, cache->lg_buckets)];
}

static void hash_insert(struct vmag_cache *cache, struct cache_slab *head)
{
	struct cache_slab **at = bucket(cache, head->start >> cache->lg_window);

	head->chain = *at;
	*at = head;
}

static void hash_remove(struct vmag_cache *cache, struct cache_slab *head)
{
	struct cache_slab **at = bucket(cache, head->start >> cache->lg_window);

	while (*at != head)
		at = &(*at)->chain;
	*at = head->chain;
}

static struct cache_slab *hash_look(struct vmag_cache *cache, uintptr_t address, uintptr_t window)
{
	struct cache_slab *head = *bucket(cache, window);

	while (head != NULL && address - head->start >= cache->bin.shape.slab_bytes)
		head = head->chain;
	return head;
}

// Makes room before a slab joins. Without memory for a larger table chains just become long; without any: false.
static bool hash_prepare(struct vmag_cache *cache)
{
	struct cache_slab **fresh, **old;
	unsigned lg_old = cache->lg_buckets, lg_new = cache->buckets == NULL ? LG_FIRST_BUCKETS : lg_old + 2;

	if (cache->buckets != NULL && __atomic_load_n(&cache->bin.slabs, __ATOMIC_RELAXED) < (size_t)2 << lg_old)
		return true;
	fresh = base_alloc_table(sizeof *fresh << lg_new);
	if (fresh == NULL)
		return cache->buckets != NULL;
	mutex_lock(&cache->bin.lock);
	old = cache->buckets;
	if (cache->lg_buckets == lg_old) {
		cache->buckets = fresh;
		cache->lg_buckets = lg_new;
		for (struct cache_slab *head = cache->slabs; head != NULL; head = head->next)
			hash_insert(cache, head);
		fresh = old;
		lg_new = lg_old;
	}
	mutex_unlock(&cache->bin.lock);
	if (fresh != NULL) // the old one, or ours when somebody else was faster
		base_free_table(fresh, sizeof *fresh << lg_new);
	return true;
}

static uintptr_t import(struct vmag_cache *cache)
{
	size_t bytes = cache->bin.shape.slab_bytes;
	bool zeroed;

	if (from_heap(cache))
		return pages_alloc_dense(&cache_pages, bytes, cache->align > os_page_size() ? cache->align : 0, &zeroed);
	return hash_prepare(cache) ? (uintptr_t)cache->source.import(cache->source.source, bytes, VMAG_NOSLEEP) : 0;
}

static void release(struct vmag_cache *cache, uintptr_t start)
{
	if (from_heap(cache))
		pages_free(&cache_pages, start, cache->bin.shape.slab_bytes);
	else
		cache->source.release(cache->source.source, (void *)start, cache->bin.shape.slab_bytes);
}

static size_t next_colour(struct vmag_cache *cache)
{
	return atomic_fetch_add_explicit(&cache->next_colour, 1, memory_order_relaxed) % cache->colours * cache->align;
}

static struct slab *create(struct bin *bin)
{
	struct vmag_cache *cache = cache_of_bin(bin);
	struct cache_slab *head = base_alloc(head_bytes(bin));

	if (head == NULL)
		return NULL;
	head->start = import(cache);
	if (head->start == 0) {
		base_free(head, head_bytes(bin));
		return NULL;
	}
	slab_init(cache_slab_body(head), bin, head->start + next_colour(cache), 0);
	if (from_heap(cache) && !page_map_set(head->start, bin->shape.slab_bytes, 0, &cache_slab_body(head)->run)) {
		release(cache, head->start);
		base_free(head, head_bytes(bin));
		return NULL;
	}
	return cache_slab_body(head);
}

static void destroy(struct bin *bin, struct slab *slab)
{
	struct vmag_cache *cache = cache_of_bin(bin);
	struct cache_slab *head = head_of(slab);
	uintptr_t start = head->start;

	if (from_heap(cache))
		page_map_clear(start, bin->shape.slab_bytes);
	base_free(head, head_bytes(bin));
	release(cache, start);
}

static void join(struct bin *bin, struct slab *slab)
{
	struct vmag_cache *cache = cache_of_bin(bin);
	struct cache_slab *head = head_of(slab);

	head->next = cache->slabs;
	head->back = &cache->slabs;
	if (head->next != NULL)
		head->next->back = &head->next;
	cache->slabs = head;
	cache->creates++;
	if (!from_heap(cache))
		hash_insert(cache, head);
}

static void leave(struct bin *bin, struct slab *slab)
{
	struct vmag_cache *cache = cache_of_bin(bin);
	struct cache_slab *head = head_of(slab);

	*head->back = head->next;
	if (head->next != NULL)
		head->next->back = head->back;
	cache->destroys++;
	for (unsigned i = 0; i < cache->sparse_count; i++)
		cache->sparse[i] = cache->sparse[i] == head ? NULL : cache->sparse[i];
	if (!from_heap(cache))
		hash_remove(cache, head);
}

static long divided(const struct slab *slab, const struct slab_shape *shape, const void *address)
{
	uintptr_t offset = (uintptr_t)address - run_start(&slab->run);

	return offset % shape->size == 0 && offset / shape->size < shape->buffers ? (long)(offset / shape->size) : -1;
}

// An address below the first buffer has an enormous offset, which is nobody's.
static struct slab *find(struct bin *bin, const void *address, long *index)
{
	struct vmag_cache *cache = cache_of_bin(bin);
	uintptr_t window = (uintptr_t)address >> cache->lg_window;
	struct slab *slab = NULL;

	if (from_heap(cache)) {
		struct run *run = page_map_run(address);

		slab = run != NULL && run->bin == bin ? (struct slab *)(void *)run : NULL;
	} else if (cache->buckets != NULL) {
		struct cache_slab *head = hash_look(cache, (uintptr_t)address, window);

		head = head != NULL ? head : hash_look(cache, (uintptr_t)address, window - 1);
		slab = head != NULL ? cache_slab_body(head) : NULL;
	}
	if (slab != NULL)
		*index = (uintptr_t)address < run_start(&slab->run) ? -1 :
			 bin->shape.reciprocal != 0 ? slab_index(slab, &bin->shape, address) : divided(slab, &bin->shape, address);
	return slab;
}

const struct slab_source cache_slab_source = { create, destroy, join, leave, find };

void cache_slabs_abandon(struct vmag_cache *cache)
{
	struct cache_slab *next;

	for (struct cache_slab *head = cache->slabs; head != NULL; head = next) {
		struct slab *slab = cache_slab_body(head);

		next = head->next;
		if (slab->run.free_count == slab_buffers(slab, &cache->bin.shape)) { // made by two who grew at once: nobody took of it
			destroy(&cache->bin, slab);
			continue;
		}
		if (from_heap(cache))
			page_map_clear(head->start, cache->bin.shape.slab_bytes);
		base_free(head, head_bytes(&cache->bin));
	}
	cache->slabs = NULL;
	if (cache->buckets != NULL)
		base_free_table(cache->buckets, sizeof *cache->buckets << cache->lg_buckets);
}
