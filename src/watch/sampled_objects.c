// The table of sampled objects of caches.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/sampled_objects.h"

#include "base/base.h"
#include "os/mutex.h"
#include "watch/profile.h"

enum { LG_LISTS = 12 };

struct sampled {
	struct sampled *next;
	const void *object;
	uint32_t tally;
};

typedef struct sampled *_Atomic list;

_Atomic uint32_t sampled_objects;

static struct {
	struct mutex lock;
	list *_Atomic lists; // by address, changed under lock; whether one is empty may be seen without. NULL before first use
} table = { .lock = MUTEX_INIT(RANK_SAMPLED) };

static list *list_of(const void *object)
{
	list *lists = atomic_load_explicit(&table.lists, memory_order_acquire);

	return lists == NULL ? NULL : &lists[(uintptr_t)object * 0x9e3779b97f4a7c15u >> (64 - LG_LISTS)];
}

// Under lock. NULL: it is not there.
static struct sampled *take(list *from, const void *object)
{
	struct sampled *before = NULL, *sampled = atomic_load_explicit(from, memory_order_relaxed);

	for (; sampled != NULL && sampled->object != object; sampled = sampled->next)
		before = sampled;
	if (sampled == NULL)
		return NULL;
	if (before != NULL)
		before->next = sampled->next;
	else
		atomic_store_explicit(from, sampled->next, memory_order_relaxed);
	atomic_fetch_sub(&sampled_objects, 1);
	return sampled;
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
	uint32_t tally;

	if (!sampled_objects_may_have(object))
		return 0;
	mutex_lock(&table.lock);
	sampled = take(from, object);
	mutex_unlock(&table.lock);
	if (sampled == NULL)
		return 0;
	tally = sampled->tally;
	base_free(sampled, sizeof *sampled);
	return tally;
}

static bool make_lists(void)
{
	list *lists = base_alloc_pages(sizeof *lists << LG_LISTS);

	mutex_lock(&table.lock);
	if (atomic_load(&table.lists) == NULL)
		atomic_store_explicit(&table.lists, lists, memory_order_release);
	mutex_unlock(&table.lock);
	return atomic_load(&table.lists) != NULL;
}

bool sampled_objects_add(const void *object, uint32_t tally)
{
	struct sampled *sampled = base_alloc(sizeof *sampled);
	uint32_t before;
	list *to;

	if (sampled == NULL || (list_of(object) == NULL && !make_lists()))
		return false;
	before = sampled_objects_take(object);
	if (before != 0)
		profile_freed(before);
	to = list_of(object);
	mutex_lock(&table.lock);
	*sampled = (struct sampled){ atomic_load_explicit(to, memory_order_relaxed), object, tally };
	atomic_store_explicit(to, sampled, memory_order_relaxed);
	atomic_fetch_add(&sampled_objects, 1);
	mutex_unlock(&table.lock);
	return true;
}

// One of the list that is of that arena; NULL: none.
static const void *one_of(list *from, unsigned arena)
{
	const void *object = NULL;

	mutex_lock(&table.lock);
	for (struct sampled *sampled = atomic_load(from); sampled != NULL && object == NULL; sampled = sampled->next)
		if (profile_tally(sampled->tally)->arena == arena)
			object = sampled->object;
	mutex_unlock(&table.lock);
	return object;
}

void sampled_objects_end(unsigned arena)
{
	list *lists = atomic_load(&table.lists);
	const void *object;

	if (atomic_load(&sampled_objects) == 0)
		return;
	for (size_t i = 0; i < (size_t)1 << LG_LISTS; i++)
		while ((object = one_of(&lists[i], arena)) != NULL)
			profile_freed(sampled_objects_take(object));
}

void sampled_objects_fork_prepare(void)
{
	mutex_fork_lock(&table.lock);
}

void sampled_objects_fork_done(void)
{
	mutex_fork_unlock(&table.lock);
}
