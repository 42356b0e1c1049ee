// The table of sampled objects of caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/sampled_objects.h"

#include <stddef.h>

#include "base/base.h"
#include "os/mutex.h"
#include "os/probe.h"
#include "util/bits.h"
#include "watch/tally.h"

enum { LG_LISTS = 12 };

_Static_assert(1 << LG_LISTS == SAMPLED_LISTS, "as many as observers are told");

struct sampled { // as include/vmag/format.h says
	struct sampled *next;
	const void *object;
	uint32_t tally;
};
_Static_assert(offsetof(struct sampled, object) == 8 && offsetof(struct sampled, tally) == 16, "a part of the format");

typedef struct sampled *_Atomic list;

_Atomic uint32_t sampled_objects;

static struct {
	struct mutex lock;
	list *_Atomic lists; // by address, changed under lock; whether one is empty may be seen without. NULL before first use
} table = { .lock = MUTEX_INIT(RANK_SAMPLED) };

static list *list_of(const void *object)
{
	list *lists = atomic_load_explicit(&table.lists, memory_order_acquire);

	return lists == NULL ? NULL : &lists[hash_bits((uintptr_t)object, LG_LISTS)];
}

// Under lock. Takes out the one after `before` (NULL: the first).
static struct sampled *take_after(list *from, struct sampled *before)
{
	struct sampled *sampled = before != NULL ? before->next : atomic_load_explicit(from, memory_order_relaxed);

	if (before != NULL)
		before->next = sampled->next;
	else
		atomic_store_explicit(from, sampled->next, memory_order_relaxed);
	atomic_fetch_sub(&sampled_objects, 1);
	return sampled;
}

// The tally of what was taken; 0: nothing was.
static uint32_t end(struct sampled *sampled)
{
	uint32_t tally = sampled == NULL ? 0 : sampled->tally;

	if (sampled != NULL)
		base_free(sampled, sizeof *sampled);
	return tally;
}

// Under lock. NULL: it is not there.
static struct sampled *take(list *from, const void *object)
{
	struct sampled *before = NULL, *sampled = atomic_load_explicit(from, memory_order_relaxed);

	for (; sampled != NULL && sampled->object != object; sampled = sampled->next)
		before = sampled;
	return sampled == NULL ? NULL : take_after(from, before);
}

bool sampled_objects_may_have(const void *object)
{
	const list *from = list_of(object);

	return from != NULL && atomic_load_explicit(from, memory_order_relaxed) != NULL;
}

uint32_t sampled_objects_take(const void *object)
{
	list *from = list_of(object);
	struct sampled *sampled;

	if (!sampled_objects_may_have(object))
		return 0;
	mutex_lock(&table.lock);
	sampled = take(from, object);
	mutex_unlock(&table.lock);
	return end(sampled);
}

// Of several threads one's are taken.
static bool make_lists(void)
{
	list *lists = base_alloc_table(sizeof *lists << LG_LISTS);
	bool taken;

	if (lists == NULL)
		return atomic_load(&table.lists) != NULL;
	mutex_lock(&table.lock);
	taken = atomic_load(&table.lists) == NULL;
	if (taken)
		atomic_store_explicit(&table.lists, lists, memory_order_release);
	mutex_unlock(&table.lock);
	if (!taken)
		base_free_table(lists, sizeof *lists << LG_LISTS);
	return true;
}

static void add(struct sampled *sampled)
{
	list *to = list_of(sampled->object);

	mutex_lock(&table.lock);
	sampled->next = atomic_load_explicit(to, memory_order_relaxed);
	atomic_store_explicit(to, sampled, memory_order_relaxed);
	atomic_fetch_add(&sampled_objects, 1);
	mutex_unlock(&table.lock);
}

bool sampled_objects_add(const void *object, uint32_t tally)
{
	struct sampled *sampled;
	uint32_t before;

	if (list_of(object) == NULL && !make_lists())
		return false;
	sampled = base_alloc(sizeof *sampled);
	if (sampled == NULL)
		return false;
	before = sampled_objects_take(object);
	if (before != 0) {
		os_probe_free(object);
		tally_freed(before);
	}
	*sampled = (struct sampled){ NULL, object, tally };
	add(sampled);
	return true;
}

// The first of the list that is of that arena: its tally, and it is not known any more; 0: none. Found and taken under one lock, for an
// address may be freed, and be another's, in between.
static uint32_t take_of_arena(list *from, unsigned arena)
{
	struct sampled *before = NULL, *sampled;

	mutex_lock(&table.lock);
	sampled = atomic_load_explicit(from, memory_order_relaxed);
	for (; sampled != NULL && tally_of(sampled->tally)->arena != arena; sampled = sampled->next)
		before = sampled;
	if (sampled != NULL)
		sampled = take_after(from, before);
	mutex_unlock(&table.lock);
	if (sampled != NULL)
		os_probe_free(sampled->object);
	return end(sampled);
}

void sampled_objects_end(unsigned arena)
{
	list *lists = atomic_load(&table.lists);
	uint32_t tally;

	if (atomic_load(&sampled_objects) == 0)
		return;
	for (size_t i = 0; i < (size_t)1 << LG_LISTS; i++)
		while (atomic_load_explicit(&lists[i], memory_order_relaxed) != NULL && (tally = take_of_arena(&lists[i], arena)) != 0)
			tally_freed(tally);
}

COLD const void *sampled_objects_lists_at(void)
{
	return &table.lists;
}

void sampled_objects_fork_prepare(void)
{
	mutex_fork_lock(&table.lock);
}

void sampled_objects_fork_done(void)
{
	mutex_fork_unlock(&table.lock);
}
