// Explicit caches: the table of those fronts that are no thread's.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdatomic.h>

#include "base/base.h"
#include "heap/capacity.h"
#include "heap/explicit.h"
#include "heap/fronts.h"

// As many as a flag of mallocx can name.
enum { CACHES_MOST = 4094 };

struct table {
	struct front *_Atomic by_id[CACHES_MOST];
	uint16_t free_ids[CACHES_MOST]; // under the lock
};

static struct {
	struct mutex lock;
	// Under lock.
	struct table *_Atomic table; // written once
	_Atomic unsigned end;        // no number from here on was used
	unsigned free_count;
} caches = { .lock = MUTEX_INIT(RANK_EXPLICIT) };

static struct front *cache_of(unsigned id)
{
	struct table *table = atomic_load_explicit(&caches.table, memory_order_acquire);

	return table == NULL || id >= CACHES_MOST ? NULL : atomic_load_explicit(&table->by_id[id], memory_order_acquire);
}

// A second table, made in a race, stays unused.
static bool table_ready(void)
{
	struct table *none = NULL, *fresh;

	if (atomic_load(&caches.table) != NULL)
		return true;
	fresh = base_alloc_pages(sizeof *fresh);
	return fresh != NULL && (atomic_compare_exchange_strong(&caches.table, &none, fresh) || none != NULL);
}

bool explicit_caches_used(void)
{
	return atomic_load_explicit(&caches.end, memory_order_relaxed) != 0;
}

static unsigned number_take(void)
{
	unsigned id;

	mutex_lock(&caches.lock);
	if (caches.free_count > 0)
		id = caches.table->free_ids[--caches.free_count];
	else
		id = caches.end < CACHES_MOST ? caches.end++ : CACHES_MOST;
	mutex_unlock(&caches.lock);
	return id;
}

static void number_return(unsigned id)
{
	mutex_lock(&caches.lock);
	caches.table->free_ids[caches.free_count++] = (uint16_t)id;
	mutex_unlock(&caches.lock);
}

int explicit_cache_create(unsigned *id)
{
	struct front *own = front_get(), *cache;
	unsigned number;

	if (own == NULL || !table_ready())
		return EAGAIN;
	number = number_take();
	if (number == CACHES_MOST)
		return EAGAIN;
	cache = front_create_cache(own->arena);
	if (cache == NULL) {
		number_return(number);
		return EAGAIN;
	}
	atomic_store(&caches.table->by_id[number], cache);
	*id = number;
	return 0;
}

int explicit_cache_flush(unsigned id)
{
	struct front *cache = cache_of(id);

	if (cache == NULL)
		return EFAULT;
	front_flush(cache);
	return 0;
}

// Takes it out of the table, NULL: it is not there.
static struct front *take_out(unsigned id)
{
	struct front *cache;

	mutex_lock(&caches.lock);
	cache = cache_of(id);
	if (cache != NULL)
		atomic_store(&caches.table->by_id[id], NULL);
	mutex_unlock(&caches.lock);
	return cache;
}

int explicit_cache_destroy(unsigned id)
{
	struct front *cache = take_out(id);

	if (cache == NULL)
		return EFAULT;
	front_destroy_cache(cache);
	number_return(id);
	return 0;
}

struct front *explicit_cache_for(unsigned id, struct arena *arena)
{
	struct front *cache = cache_of(id), *own;

	if (cache == NULL)
		return NULL;
	if (arena == NULL && cache->arena->state != ARENA_LIVE) {
		own = front_get();
		arena = own == NULL ? NULL : own->arena;
	}
	if (arena != NULL && arena != cache->arena) {
		front_flush(cache);
		front_move(cache, arena, arena);
		atomic_thread_fence(memory_order_release); // before it holds anything
	}
	return cache;
}

// Whether it holds something of the arena. What is in use by others serves another arena by then, and was made to before it held anything: so that
// is looked at last.
static bool holds_of(const struct front *cache, const struct arena *arena)
{
	bool holds = front_has_magazines(cache);

	atomic_thread_fence(memory_order_acquire);
	return holds && __atomic_load_n(&cache->arena, __ATOMIC_RELAXED) == arena;
}

// The next one from `*id` on; under the lock, for others may be destroyed meanwhile.
static struct front *next_that_holds(const struct arena *arena, unsigned *id)
{
	struct front *found = NULL;

	mutex_lock(&caches.lock);
	for (; *id < caches.end && found == NULL; ++*id)
		if (cache_of(*id) != NULL && holds_of(cache_of(*id), arena))
			found = cache_of(*id);
	mutex_unlock(&caches.lock);
	return found;
}

void explicit_caches_leave(const struct arena *arena)
{
	struct front *cache;

	for (unsigned id = 0; (cache = next_that_holds(arena, &id)) != NULL;)
		front_drain(cache);
}

void explicit_caches_fork_prepare(void)
{
	mutex_fork_lock(&caches.lock);
}

void explicit_caches_fork_done(bool child)
{
	for (unsigned id = 0; child && id < caches.end; id++)
		if (cache_of(id) != NULL)
			front_count_again(cache_of(id));
	mutex_fork_unlock(&caches.lock);
}
