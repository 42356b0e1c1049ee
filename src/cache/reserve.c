// Reserves: magazines out of the depot, and new ones filled from slabs.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/reserve.h"

#include <errno.h>

#include "base/base.h"
#include "cache/front.h"
#include "cache/objects.h"
#include "cache/table.h"

struct vmag_reserve {
	struct vmag_cache *cache;
	struct magazine *chain; // the rounds of all together are at least `left`
	size_t left;
};

static void add(struct vmag_reserve *reserve, struct magazine *magazine)
{
	magazine->next = reserve->chain;
	reserve->chain = magazine;
}

// A new magazine with up to `count` objects. NULL: not even one.
static struct magazine *filled_magazine(struct vmag_cache *cache, size_t count, int flags)
{
	struct magazine *magazine;

	magazines_ask();
	magazine = magazine_create((unsigned)min_size(count, cache->most_rounds), 0);
	if (magazine == NULL)
		return NULL;
	while (magazine->rounds < magazine->capacity) {
		void *object = cache_construct(cache, flags);

		if (object == NULL)
			break;
		magazine->round[magazine->rounds++] = object;
	}
	if (magazine->rounds > 0)
		return magazine;
	magazine_destroy(magazine);
	return NULL;
}

// False: out of memory.
static bool stock(struct vmag_reserve *reserve, size_t *have, size_t count, int flags)
{
	while (*have < count) {
		struct magazine *magazine = depot_take_full(&reserve->cache->depot, NULL, NULL);

		if (magazine == NULL)
			magazine = filled_magazine(reserve->cache, count - *have, flags);
		if (magazine == NULL)
			return false;
		*have += magazine->rounds;
		add(reserve, magazine);
	}
	return true;
}

static void give_back(struct vmag_reserve *reserve)
{
	struct vmag_cache *cache = reserve->cache;

	if (cache->flags & VMAG_CACHE_NOMAGAZINE)
		cache_drain_chain(cache, reserve->chain);
	else
		for (struct magazine *magazine = reserve->chain, *next; magazine != NULL; magazine = next) {
			next = magazine->next;
			cache_leave_magazine(cache, magazine);
		}
	reserve->chain = NULL;
}

static struct vmag_reserve *new_reserve(struct vmag_cache *cache, int flags)
{
	struct vmag_reserve *reserve;

	while ((reserve = base_alloc(sizeof *reserve)) == NULL) {
		if (flags & VMAG_NOSLEEP)
			return NULL;
		cache_relieve(cache);
		cache_wait(cache);
	}
	*reserve = (struct vmag_reserve){ .cache = cache };
	return reserve;
}

struct vmag_reserve *cache_reserve(struct vmag_cache *cache, size_t count, int flags)
{
	struct vmag_reserve *reserve;
	size_t have = 0;
	bool again = false;

	cache_expect_live(cache, "vmag_cache_reserve");
	reserve = new_reserve(cache, flags);
	while (reserve != NULL && !stock(reserve, &have, count, flags)) {
		if (again && (flags & VMAG_NOSLEEP)) {
			reserve_release(reserve);
			reserve = NULL;
			break;
		}
		cache_relieve(cache);
		if (again) { // who sleeps has nothing that another one may sleep for
			give_back(reserve);
			have = 0;
			cache_wait(cache);
		}
		again = true;
	}
	if (reserve == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	for (reserve->left = have; reserve->left > count;) // what a whole magazine brought too many
		cache_free(cache, reserve_alloc(reserve));
	return reserve;
}

void *reserve_alloc(struct vmag_reserve *reserve)
{
	struct magazine *magazine = reserve->chain;

	if (reserve->left == 0)
		return NULL;
	while (magazine->rounds == 0) {
		reserve->chain = magazine->next;
		magazine_destroy(magazine);
		magazine = reserve->chain;
	}
	reserve->left--;
	return magazine->round[--magazine->rounds];
}

size_t reserve_left(const struct vmag_reserve *reserve)
{
	return reserve->left;
}

void reserve_release(struct vmag_reserve *reserve)
{
	if (reserve == NULL)
		return;
	give_back(reserve);
	base_free(reserve, sizeof *reserve);
}
