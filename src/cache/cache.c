// Object caches: creation, the end, reaping.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/cache.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "cache/front.h"
#include "cache/objects.h"
#include "cache/slabs.h"
#include "cache/table.h"
#include "guard/report.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/pages.h"
#include "pages/page_map.h"

enum {
	MAGAZINE_BYTES_MOST = 64 * 1024, // of objects in a magazine
	ROUNDS_MOST = 252,
	CONTENDED_BYTES_MOST = 256 * 1024, // the same where threads meet at the depot
	CONTENDED_ROUNDS_MOST = 4092,
	KNOWN_FLAGS = VMAG_CACHE_NOTOUCH | VMAG_CACHE_NOMAGAZINE | VMAG_CACHE_QUANTUM,
};

static void *failed(int why)
{
	errno = why;
	return NULL;
}

static size_t quantum_of(const struct cache_description *wanted)
{
	return wanted->source.import != NULL ? wanted->source.quantum : os_page_size();
}

static size_t align_of(const struct cache_description *wanted)
{
	size_t least = wanted->size >= 16 ? 16 : 8;

	if (wanted->flags & VMAG_CACHE_NOTOUCH)
		return wanted->align != 0 ? wanted->align : quantum_of(wanted);
	return wanted->align == 0 ? least : max_size(wanted->align, 8);
}

static bool is_possible(const struct cache_description *wanted)
{
	size_t align = align_of(wanted);

	if (wanted->name == NULL || wanted->size == 0 || (wanted->flags & ~KNOWN_FLAGS) != 0 ||
	    (wanted->align != 0 && !is_power_of_two(wanted->align)))
		return false;
	return align <= (wanted->source.import != NULL ? quantum_of(wanted) : CHUNK_BYTES);
}

// Few rounds at first, fewer of large objects; at most what a magazine may hold in bytes.
static void choose_rounds(struct vmag_cache *cache)
{
	size_t size = cache->bin.shape.size;

	cache->least_rounds = size <= 256 ? 12 : size <= 2048 ? 4 : 2;
	cache->most_rounds = (unsigned)max_size(min_size(MAGAZINE_BYTES_MOST / size, ROUNDS_MOST), cache->least_rounds);
	cache->contended_rounds = (unsigned)max_size(min_size(CONTENDED_BYTES_MOST / size, CONTENDED_ROUNDS_MOST), cache->most_rounds);
	atomic_init(&cache->rounds, cache->least_rounds);
}

static void copy_name(char *to, const char *name)
{
	size_t length = strnlen(name, CACHE_NAME_BYTES - 1);

	memcpy(to, name, length);
	to[length] = '\0';
	for (char *at = to; *at != '\0'; at++) // names appear in reports, whose text is a format
		*at = *at == '%' || (unsigned char)*at < ' ' ? '_' : *at;
}

static void set_up(struct vmag_cache *cache, const struct cache_description *wanted, struct slab_shape shape)
{
	memset(cache, 0, sizeof *cache);
	cache->free_name = wanted->free_name != NULL ? wanted->free_name : "vmag_cache_free";
	copy_name(cache->name, wanted->name);
	cache->flags = wanted->flags;
	cache->object_bytes = wanted->size;
	cache->align = align_of(wanted);
	cache->constructor = wanted->constructor;
	cache->destructor = wanted->destructor;
	cache->reclaim = wanted->reclaim;
	cache->argument = wanted->argument;
	cache->source = wanted->source;
	cache->lg_window = lg_ceil(shape.slab_bytes);
	cache->colours = 1;
	if (!(cache->flags & VMAG_CACHE_QUANTUM))
		cache->colours += (unsigned)((shape.slab_bytes - shape.buffers * shape.size) / cache->align);
	cache->updated_at = cache->tuned_at = os_clock_ms();
	depot_init(&cache->depot);
	bin_init_from(&cache->bin, shape, &cache_slab_source);
	choose_rounds(cache);
}

struct vmag_cache *cache_create(const struct cache_description *wanted)
{
	struct slab_shape shape;
	struct vmag_cache *cache;
	size_t align;

	if (!is_possible(wanted))
		return failed(EINVAL);
	align = align_of(wanted);
	if (wanted->size > PTRDIFF_MAX - align)
		return failed(ENOMEM);
	shape = cache_shape(round_up(wanted->size, align), max_size(quantum_of(wanted), 1), wanted->slab_bytes, wanted->source.total, wanted->flags);
	if (shape.buffers == 0)
		return failed(ENOMEM);
	cache = base_alloc(sizeof *cache);
	if (cache == NULL)
		return failed(EAGAIN);
	set_up(cache, wanted, shape);
	if (!caches_enter(cache)) {
		base_free(cache, sizeof *cache);
		return failed(EAGAIN);
	}
	return cache;
}

// Empties all magazines. Destructors may free objects of this cache, too.
static void empty(struct vmag_cache *cache)
{
	struct magazine *chain;

	while ((chain = cache_fronts_collect(cache)) != NULL || (chain = depot_reap(&cache->depot, true, NULL)) != NULL)
		cache_drain_chain(cache, chain);
}

// While the cache is in the table, a thread that ends leaves its magazines in the depot; so it is emptied first. Whoever is at
// work in it, giving back memory, is waited for.
void cache_destroy(struct vmag_cache *cache, const char *call)
{
	size_t missing;
	unsigned id;

	if (cache == NULL)
		return;
	cache_expect_live(cache, call);
	if (atomic_load(&cache->reclaimer) == &cache_words) // it would wait for itself, or go on in what is freed
		guard_report_in(call, cache, cache->name, "destroyed within its reclaim callback, or that never returned", 0);
	id = cache->id;
	empty(cache);
	caches_leave(cache);
	empty(cache); // what those left who were at work
	caches_remove(cache);
	empty(cache); // takes the locks under which others found it there
	bin_trim(&cache->bin, true);
	missing = cache->bin.slabs * cache->bin.shape.buffers - cache->bin.free_buffers;
	if (missing != 0 && !cache->lost_rounds)
		os_stderr_say("vmag: %s(%p): cache '%s' is not empty: %zu of its objects were not freed", call, (void *)cache, cache->name, missing);
	cache_slabs_abandon(cache);
	cache->leaving = false;
	base_free(cache, sizeof *cache);
	caches_free_id(id);
}

void cache_reap(struct vmag_cache *cache)
{
	cache_front_flush(cache);
	cache_drain_depot(cache, true);
	bin_trim(&cache->bin, true);
	atomic_fetch_add_explicit(&cache->reaps, 1, memory_order_relaxed);
}

void cache_reclaim(struct vmag_cache *cache)
{
	void *nobody = NULL;

	if (cache->reclaim != NULL && atomic_compare_exchange_strong(&cache->reclaimer, &nobody, &cache_words)) {
		cache->reclaim(cache->argument);
		atomic_store(&cache->reclaimer, NULL);
	}
	cache_reap(cache);
}
