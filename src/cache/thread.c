// Threads of the object caches: their tables, the list of them, their ends.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/thread.h"

#include <string.h>

#include "base/base.h"
#include "cache/cpu.h"
#include "cache/table.h"
#include "os/clock.h"
#include "os/memory.h"
#include "os/thread.h"

enum { FIRST_TABLE = CACHE_FAST_IDS }; // caches in a thread's first table

void *const cache_closed_magazine[2] = { NULL, MAGAZINE_FULL };

// The tops of a thread that has no table, before its first miss and past its end: of no thread, and all closed.
static void **closed_tops[1 + CACHE_FAST_IDS];

__thread struct cache_words cache_words = { .fast_tops = closed_tops + 1, .tops = closed_tops + 1 };

static struct {
	struct mutex lock;
	struct cache_thread *first; // under lock
} threads = { .lock = MUTEX_INIT(RANK_CACHE_THREADS) };

void cache_door(bool open)
{
	cache_words.fast_tops = open ? cache_words.tops : closed_tops + 1;
	cache_words.fast_cpu = open ? cache_words.cpu : NULL;
}

static size_t table_bytes(size_t count)
{
	return (1 + 2 * count) * sizeof(void *);
}

static struct cache_thread *thread_create(void)
{
	struct cache_thread *thread = base_alloc(sizeof *thread);

	if (thread == NULL)
		return NULL;
	memset(thread, 0, sizeof *thread);
	thread->tidied_at = os_clock_ms();
	return thread;
}

static void link_thread(struct cache_thread *thread)
{
	thread->next = threads.first;
	if (threads.first != NULL)
		threads.first->prev = thread;
	threads.first = thread;
}

static void unlink_thread(struct cache_thread *thread)
{
	if (thread->prev != NULL)
		thread->prev->next = thread->next;
	else
		threads.first = thread->next;
	if (thread->next != NULL)
		thread->next->prev = thread->prev;
}

// Under the list's lock, which keeps destroyers of caches out of the old table while it is copied.
static void table_install(struct cache_thread *thread, void ***tops, size_t count)
{
	struct cache_front **fronts = (struct cache_front **)(void *)(tops + count);

	tops[-1] = (void **)(void *)thread;
	for (size_t id = 0; id < count; id++) {
		tops[id] = id < thread->count ? thread->tops[id] : CACHE_CLOSED;
		fronts[id] = id < thread->count ? cache_thread_fronts(thread)[id] : NULL;
	}
	thread->tops = tops;
	thread->count = count;
	cache_words.tops = tops;
	cache_words.fast_tops = closed_tops + 1;
	cache_words.count = (uint32_t)count;
}

static void thread_end(void *value);

bool cache_thread_reserve(unsigned id)
{
	struct cache_thread *thread = cache_thread_this(), *fresh = NULL;
	size_t count = FIRST_TABLE, old_count = thread == NULL ? 0 : thread->count;
	void ***table, ***old = thread == NULL ? NULL : thread->tops;

	if (cache_words.ended)
		return false;
	while (count <= id)
		count *= 2;
	table = base_alloc_table(table_bytes(count));
	if (table != NULL && thread == NULL)
		thread = fresh = thread_create();
	if (table == NULL || thread == NULL) {
		if (table != NULL)
			base_free_table(table, table_bytes(count));
		return false;
	}
	mutex_lock(&threads.lock);
	table_install(thread, table + 1, count);
	if (fresh != NULL)
		link_thread(thread);
	mutex_unlock(&threads.lock);
	if (old != NULL)
		base_free_table(old - 1, table_bytes(old_count));
	if (fresh != NULL && !os_thread_exit_value(OS_THREAD_END_CACHES, thread))
		thread_end(thread);
	return !cache_words.ended;
}

void cache_thread_visit(unsigned id, cache_visit *visit)
{
	struct vmag_cache *cache;

	if (cache_thread_front(id) == NULL)
		return;
	mutex_lock(&threads.lock);
	cache = cache_of_id(id);
	if (cache != NULL && cache_thread_front(id) != NULL)
		visit(cache, cache_thread_front(id));
	mutex_unlock(&threads.lock);
}

void cache_thread_visit_all(cache_visit *visit)
{
	for (unsigned id = 0; id < cache_words.count; id++)
		cache_thread_visit(id, visit);
}

// Takes a cache's magazines out of a thread's table; under the list's lock.
static struct magazine *take_both(struct cache_thread *thread, unsigned id, struct magazine *chain)
{
	struct cache_front *front = cache_thread_fronts(thread)[id];

	if (front->loaded != NULL) {
		front->loaded->rounds = (uint32_t)(thread->tops[id] - front->loaded->round);
		front->loaded->next = chain;
		chain = front->loaded;
	}
	if (front->previous != NULL) {
		front->previous->next = chain;
		chain = front->previous;
	}
	cache_thread_fronts(thread)[id] = NULL;
	thread->tops[id] = CACHE_CLOSED;
	base_free(front, sizeof *front);
	return chain;
}

struct magazine *cache_fronts_collect(struct vmag_cache *cache)
{
	struct magazine *chain = NULL;

	mutex_lock(&threads.lock);
	for (struct cache_thread *thread = threads.first; thread != NULL; thread = thread->next)
		if (cache->id < thread->count && cache_thread_fronts(thread)[cache->id] != NULL)
			chain = take_both(thread, cache->id, chain);
	mutex_unlock(&threads.lock);
	return chain != NULL ? chain : cache_cpu_collect(cache);
}

// The hook at a thread's end. Under the list's lock throughout, so that no cache is destroyed whose magazines are on their
// way; nothing of the program is called.
static void thread_end(void *value)
{
	struct cache_thread *thread = value;

	if (cache_thread_this() != thread)
		return;
	for (unsigned id = 0; id < thread->count; id++) {
		mutex_lock(&threads.lock);
		struct vmag_cache *cache = cache_thread_fronts(thread)[id] != NULL ? cache_of_id(id) : NULL;
		struct magazine *magazine = cache == NULL ? NULL : take_both(thread, id, NULL), *next;

		for (; magazine != NULL; magazine = next) {
			next = magazine->next;
			cache_leave_magazine(cache, magazine);
		}
		mutex_unlock(&threads.lock);
	}
	mutex_lock(&threads.lock);
	unlink_thread(thread);
	mutex_unlock(&threads.lock);
	cache_words.tops = cache_words.fast_tops = closed_tops + 1;
	cache_words.count = 0;
	cache_words.ended = true;
	base_free_table(thread->tops - 1, table_bytes(thread->count));
	base_free(thread, sizeof *thread);
}

// A magazine in use by another thread may vanish while it is read.
static size_t rounds_of(const struct magazine *magazine, size_t rounds, bool own, void **out, size_t most)
{
	if (out == NULL || rounds == 0)
		return rounds;
	rounds = min_size(rounds, most);
	if (own)
		memcpy(out, magazine->round, rounds * sizeof *out);
	return own || os_memory_peek(out, magazine->round, rounds * sizeof *out) ? rounds : 0;
}

static size_t rounds_of_thread(const struct cache_thread *thread, unsigned id, void **out, size_t most)
{
	const struct cache_front *front = cache_thread_fronts(thread)[id];
	struct magazine *loaded = __atomic_load_n(&front->loaded, __ATOMIC_RELAXED);
	struct magazine *previous = __atomic_load_n(&front->previous, __ATOMIC_RELAXED);
	bool own = thread == cache_thread_this();
	size_t count = 0;

	if (loaded != NULL)
		count = (size_t)(__atomic_load_n(&thread->tops[id], __ATOMIC_RELAXED) - loaded->round);
	count = count <= front->capacity ? rounds_of(loaded, count, own, out, most) : 0;
	if (previous != NULL)
		count += rounds_of(previous, front->previous_rounds, own, out == NULL ? NULL : out + count, most - count);
	return count;
}

size_t cache_fronts_rounds(struct vmag_cache *cache, void **out, size_t most)
{
	size_t count = cache_cpu_rounds(cache, out, most);

	mutex_lock(&threads.lock);
	for (struct cache_thread *thread = threads.first; thread != NULL; thread = thread->next)
		if (cache->id < thread->count && cache_thread_fronts(thread)[cache->id] != NULL)
			count += rounds_of_thread(thread, cache->id, out == NULL ? NULL : out + count, most - count);
	mutex_unlock(&threads.lock);
	return count;
}

bool cache_fronts_can_be_read(const struct vmag_cache *cache)
{
	struct cache_thread *own = cache_thread_this(), copy;
	bool others = false;

	mutex_lock(&threads.lock);
	for (struct cache_thread *thread = threads.first; thread != NULL; thread = thread->next)
		others |= thread != own && cache->id < thread->count && cache_thread_fronts(thread)[cache->id] != NULL;
	bool readable = !others || os_memory_peek(&copy, threads.first, sizeof copy);
	mutex_unlock(&threads.lock);
	return readable;
}

void cache_fronts_init(void)
{
	os_thread_exit_hook(OS_THREAD_END_CACHES, thread_end);
}

void cache_fronts_open(void)
{
	if (closed_tops[1] == NULL)
		for (unsigned id = 0; id < CACHE_FAST_IDS; id++)
			closed_tops[1 + id] = CACHE_CLOSED;
}

void cache_fronts_fork_lock(void)
{
	mutex_fork_lock(&threads.lock);
}

// In the child the other threads are gone, and what their magazines held when the pages were copied cannot be trusted.
void cache_fronts_fork_done(bool child)
{
	struct cache_thread *own = cache_words.count > 0 ? cache_thread_this() : NULL;

	if (child) {
		threads.first = own;
		if (own != NULL)
			own->next = own->prev = NULL;
	}
	mutex_fork_unlock(&threads.lock);
}
