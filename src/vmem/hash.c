// The hash of an arena's allocated segments: it grows from two a bucket on, to half a one, and shrinks when there are more than 32 buckets a segment, to eight.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "base/base.h"
#include "conf/options.h"
#include "os/pages.h"
#include "vmem/segment.h"

enum { HUGE_BYTES = 2 << 20 }; // tables from which on are of huge pages

static void buckets_free(struct vmem *arena, struct vmem_segment **buckets, unsigned lg_count)
{
	if (buckets != arena->first_buckets)
		base_free_table(buckets, sizeof *buckets << lg_count);
}

// `lg_count` of the first buckets: the arena's own.
static struct vmem_segment **buckets_alloc(struct vmem *arena, unsigned lg_count)
{
	size_t size = sizeof(struct vmem_segment *) << lg_count;
	struct vmem_segment **buckets;

	if (lg_count == lg_floor(VMEM_FIRST_BUCKETS))
		return arena->first_buckets;
	buckets = base_alloc_table(size);
	if (buckets != NULL && size >= HUGE_BYTES && options.thp != THP_NEVER)
		os_pages_huge(buckets, size, true);
	return buckets;
}

static unsigned lg_wanted(const struct vmem *arena)
{
	unsigned lg_least = lg_floor(VMEM_FIRST_BUCKETS);

	if (hash_is_full(arena))
		return arena->lg_buckets + 2;
	if (hash_is_sparse(arena))
		return arena->lg_buckets >= lg_least + 2 ? arena->lg_buckets - 2 : lg_least;
	return arena->lg_buckets;
}

static void rehash(struct vmem *arena, struct vmem_segment **old, unsigned lg_old)
{
	for (size_t i = 0; i < (size_t)1 << lg_old; i++)
		for (struct vmem_segment *next, *at = old[i]; at != NULL; at = next) {
			struct vmem_segment **head = bucket(arena, at->start);

			next = at->list_next;
			at->list_next = *head;
			*head = at;
		}
}

COLD void vmem_hash_resize(struct vmem *arena)
{
	mutex_lock(&arena->lock);
	unsigned lg_old = arena->lg_buckets, lg_new = lg_wanted(arena);
	mutex_unlock(&arena->lock);
	if (lg_new == lg_old)
		return;
	struct vmem_segment **fresh = buckets_alloc(arena, lg_new), **old;
	if (fresh == NULL)
		return;
	mutex_lock(&arena->lock);
	if (arena->lg_buckets != lg_old || lg_wanted(arena) != lg_new) { // somebody else was faster
		mutex_unlock(&arena->lock);
		buckets_free(arena, fresh, lg_new);
		return;
	}
	old = arena->buckets;
	if (fresh == arena->first_buckets)
		memset(fresh, 0, sizeof arena->first_buckets);
	arena->buckets = fresh;
	arena->lg_buckets = lg_new;
	rehash(arena, old, lg_old);
	mutex_unlock(&arena->lock);
	buckets_free(arena, old, lg_old);
}

void vmem_hash_free(struct vmem *arena)
{
	buckets_free(arena, arena->buckets, arena->lg_buckets);
}
