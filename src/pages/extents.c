// Extents: calling the hooks, keeping what they do not take back, and the default hooks.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/extents.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "guard/report.h"
#include "jemalloc/jemalloc.h"
#include "os/pages.h"
#include "pages/chunks.h"
#include "pages/page_map.h"

// An extent that is kept.
struct extent {
	struct extent *next;
	uintptr_t start;
	size_t size;
	bool committed;
};

void extents_init(struct extents *extents)
{
	mutex_init(&extents->lock, RANK_EXTENTS);
}

// --- the default hooks: chunks of the heap region ---

static void *default_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero, bool *commit,
			   unsigned arena)
{
	uintptr_t start;

	(void)hooks, (void)arena;
	if (new_addr != NULL || size == 0 || size > page_map_chunk_bytes())
		return NULL;
	start = chunks_import(round_up(size, CHUNK_BYTES), align);
	if (start != 0)
		*zero = *commit = true;
	return (void *)start;
}

static bool default_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena)
{
	(void)hooks, (void)committed, (void)arena;
	return !chunks_release((uintptr_t)address, round_up(size, CHUNK_BYTES));
}

static void default_destroy(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena)
{
	default_dalloc(hooks, address, size, committed, arena);
}

// Linux commits memory when it is touched.
static bool default_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned arena)
{
	(void)hooks, (void)address, (void)size, (void)offset, (void)length, (void)arena;
	return true;
}

static bool default_purge(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned arena)
{
	(void)hooks, (void)size, (void)arena;
	return !os_pages_purge((char *)address + offset, length);
}

static bool default_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a, size_t size_b, bool committed,
			  unsigned arena)
{
	(void)hooks, (void)address, (void)size, (void)size_a, (void)size_b, (void)committed, (void)arena;
	return false;
}

static bool default_merge(extent_hooks_t *hooks, void *address_a, size_t size_a, void *address_b, size_t size_b, bool committed,
			  unsigned arena)
{
	(void)hooks, (void)address_a, (void)size_a, (void)address_b, (void)size_b, (void)committed, (void)arena;
	return false;
}

extent_hooks_t extents_default = {
	.alloc = default_alloc,
	.dalloc = default_dalloc,
	.destroy = default_destroy,
	.commit = default_commit,
	.decommit = default_commit,
	.purge_lazy = default_purge,
	.purge_forced = default_purge,
	.split = default_split,
	.merge = default_merge,
};

extent_hooks_t *extents_hooks(const struct extents *extents)
{
	extent_hooks_t *hooks = atomic_load(&extents->hooks);

	return hooks == NULL ? &extents_default : hooks;
}

extent_hooks_t *extents_set_hooks(struct extents *extents, extent_hooks_t *hooks)
{
	bool is_default = hooks == NULL || hooks == &extents_default;
	extent_hooks_t *before;

	if (!is_default)
		atomic_store(&extents->had_hooks, true);
	before = atomic_exchange(&extents->hooks, is_default ? NULL : hooks);
	return before == NULL ? &extents_default : before;
}

bool (*_Atomic extents_around_hooks)(bool before);

// What hooks met on the way is not told to who allocates or frees.
struct visit {
	bool entered;
	int saved_errno;
};

static struct visit enter_hooks(const struct extents *extents)
{
	int saved = errno;

	return (struct visit){ !extents_are_ours(extents) && extents_around_hooks != NULL && extents_around_hooks(true), saved };
}

static void leave_hooks(struct visit visit)
{
	if (visit.entered)
		extents_around_hooks(false);
	errno = visit.saved_errno;
}

// --- calling hooks; true: done ---

static bool give_back(struct extents *extents, const struct extent *extent)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	return hooks->dalloc != NULL &&
	       !hooks->dalloc(hooks, (void *)extent->start, extent->size, extent->committed, extents->arena);
}

// For good, by the hook that cannot refuse; without one the extent is lost.
static void give_up(struct extents *extents, const struct extent *extent)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	if (hooks->destroy != NULL)
		hooks->destroy(hooks, (void *)extent->start, extent->size, extent->committed, extents->arena);
}

static bool commit(struct extents *extents, uintptr_t start, size_t size)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	return hooks->commit != NULL && !hooks->commit(hooks, (void *)start, size, 0, size, extents->arena);
}

static bool decommit(struct extents *extents, uintptr_t start, size_t size)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	return hooks->decommit != NULL && !hooks->decommit(hooks, (void *)start, size, 0, size, extents->arena);
}

static bool purge_with(extent_hooks_t *hooks, extent_purge_t *purge, uintptr_t span, size_t span_bytes, size_t offset, size_t size, unsigned arena)
{
	return purge != NULL && !purge(hooks, (void *)span, span_bytes, offset, size, arena);
}

static bool purge(struct extents *extents, uintptr_t span, size_t span_bytes, size_t offset, size_t size)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	return purge_with(hooks, hooks->purge_forced, span, span_bytes, offset, size, extents->arena) ||
	       purge_with(hooks, hooks->purge_lazy, span, span_bytes, offset, size, extents->arena);
}

bool extents_purge(struct extents *extents, uintptr_t span, size_t span_bytes, size_t offset, size_t size)
{
	struct visit visit = enter_hooks(extents);
	bool purged = purge(extents, span, span_bytes, offset, size);

	leave_hooks(visit);
	return purged;
}

static bool may_split(struct extents *extents, const struct extent *extent, size_t size)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	return hooks->split != NULL && !hooks->split(hooks, (void *)extent->start, extent->size, size, extent->size - size,
						     extent->committed, extents->arena);
}

static bool may_merge(struct extents *extents, const struct extent *low, const struct extent *high)
{
	extent_hooks_t *hooks = extents_hooks(extents);

	return hooks->merge != NULL && !hooks->merge(hooks, (void *)low->start, low->size, (void *)high->start, high->size,
						     low->committed, extents->arena);
}

// --- what is kept ---

static void keep(struct extents *extents, struct extent *extent)
{
	mutex_lock(&extents->lock);
	extent->next = extents->kept;
	extents->kept = extent;
	extents->kept_bytes += extent->size;
	mutex_unlock(&extents->lock);
}

// Under the lock.
static struct extent *take_at(struct extents *extents, struct extent **at)
{
	struct extent *extent = *at;

	if (extent != NULL) {
		*at = extent->next;
		extents->kept_bytes -= extent->size;
	}
	return extent;
}

// The smallest kept extent of at least `size` and at most `most` bytes.
static struct extent *take_fitting(struct extents *extents, size_t size, size_t most)
{
	struct extent **best = NULL, *extent;

	mutex_lock(&extents->lock);
	for (struct extent **at = &extents->kept; *at != NULL; at = &(*at)->next)
		if ((*at)->size >= size && (*at)->size <= most && (best == NULL || (*at)->size < (*best)->size))
			best = at;
	extent = best == NULL ? NULL : take_at(extents, best);
	mutex_unlock(&extents->lock);
	return extent;
}

// Any kept extent.
static struct extent *take_one(struct extents *extents)
{
	struct extent *extent;

	mutex_lock(&extents->lock);
	extent = take_at(extents, &extents->kept);
	mutex_unlock(&extents->lock);
	return extent;
}

static bool are_neighbours(const struct extent *low, const struct extent *high)
{
	return low->start + low->size == high->start && low->committed == high->committed;
}

static struct extent *take_neighbour(struct extents *extents, const struct extent *extent)
{
	struct extent **at = &extents->kept, *neighbour;

	mutex_lock(&extents->lock);
	while (*at != NULL && !are_neighbours(*at, extent) && !are_neighbours(extent, *at))
		at = &(*at)->next;
	neighbour = take_at(extents, at);
	mutex_unlock(&extents->lock);
	return neighbour;
}

// Keeps an extent, merged with its kept neighbours as far as the hook allows.
static void keep_merged(struct extents *extents, struct extent *extent)
{
	struct extent *neighbour = take_neighbour(extents, extent);

	while (neighbour != NULL) {
		bool is_low = neighbour->start < extent->start;

		if (!may_merge(extents, is_low ? neighbour : extent, is_low ? extent : neighbour)) {
			keep(extents, neighbour);
			break;
		}
		extent->start = is_low ? neighbour->start : extent->start;
		extent->size += neighbour->size;
		base_free(neighbour, sizeof *neighbour);
		neighbour = take_neighbour(extents, extent);
	}
	keep(extents, extent);
}

// Leaves an extent of `size` bytes; the rest is kept. False: not possible, nothing was done.
static bool cut_to(struct extents *extents, struct extent *extent, size_t size)
{
	struct extent *rest;

	if (extent->size == size)
		return true;
	rest = base_alloc(sizeof *rest);
	if (rest == NULL)
		return false;
	if (!may_split(extents, extent, size)) {
		base_free(rest, sizeof *rest);
		return false;
	}
	*rest = (struct extent){ .start = extent->start + size, .size = extent->size - size, .committed = extent->committed };
	extent->size = size;
	keep(extents, rest);
	return true;
}

// Uses a kept extent again; 0: none serves.
static uintptr_t import_kept(struct extents *extents, size_t size)
{
	struct extent *extent = take_fitting(extents, size, SIZE_MAX);
	uintptr_t start;

	if (extent != NULL && !cut_to(extents, extent, size)) {
		keep(extents, extent);
		extent = take_fitting(extents, size, size);
	}
	if (extent == NULL)
		return 0;
	if (!extent->committed && !commit(extents, extent->start, size)) {
		keep(extents, extent);
		return 0;
	}
	start = extent->start;
	base_free(extent, sizeof *extent);
	return start;
}

// Whether the arena can use what the hook gave.
static bool is_usable(struct extents *extents, uintptr_t start, size_t size, bool committed)
{
	if (start % CHUNK_BYTES != 0) {
		guard_warn("extent hooks", (void *)start, "not a multiple of %zu bytes: not used", CHUNK_BYTES);
		return false;
	}
	if (!page_map_cover(start, size)) {
		guard_warn("extent hooks", (void *)start,
			   page_map_may_reach_all() ? "no room for a page map that reaches here for the moment: not used" :
						      "beyond what the page map can cover: not used",
			   0);
		return false;
	}
	return committed || commit(extents, start, size);
}

static uintptr_t import_fresh(struct extents *extents, size_t size)
{
	extent_hooks_t *hooks = extents_hooks(extents);
	bool zero = false, committed = true;
	uintptr_t start = (uintptr_t)hooks->alloc(hooks, NULL, size, CHUNK_BYTES, &zero, &committed, extents->arena);

	if (start != 0 && !is_usable(extents, start, size, committed)) {
		struct extent useless = { .start = start, .size = size, .committed = committed };

		if (!give_back(extents, &useless))
			give_up(extents, &useless);
		return 0;
	}
	return start;
}

uintptr_t extents_import(struct extents *extents, size_t size)
{
	struct visit visit = enter_hooks(extents);
	uintptr_t start = import_kept(extents, size);

	if (start == 0)
		start = import_fresh(extents, size);
	leave_hooks(visit);
	return start;
}

static void release(struct extents *extents, uintptr_t start, size_t size)
{
	struct extent given = { .start = start, .size = size, .committed = true }, *extent;

	if (give_back(extents, &given))
		return;
	given.committed = !decommit(extents, start, size);
	if (given.committed && !purge(extents, start, size, 0, size) && extents_are_zero(extents))
		memset((void *)start, 0, size); // locked pages
	extent = base_alloc(sizeof *extent);
	if (extent == NULL) { // no memory to remember it
		give_up(extents, &given);
		return;
	}
	*extent = given;
	keep_merged(extents, extent);
}

void extents_release(struct extents *extents, uintptr_t start, size_t size)
{
	struct visit visit = enter_hooks(extents);

	release(extents, start, size);
	leave_hooks(visit);
}

// Chunks that could not be unmapped, and are of no hooks, on either side.
static bool may_inherit(const struct extents *extents, const struct extents *heir)
{
	return extents_are_ours(extents) && extents_are_zero(extents) && heir != NULL && heir != extents && extents_are_ours(heir);
}

void extents_destroy(struct extents *extents, struct extents *heir)
{
	struct visit visit = enter_hooks(extents);
	struct extent *extent;

	while ((extent = take_one(extents)) != NULL) {
		if (may_inherit(extents, heir))
			extents_release(heir, extent->start, extent->size);
		else
			give_up(extents, extent);
		base_free(extent, sizeof *extent);
	}
	leave_hooks(visit);
	atomic_store(&extents->hooks, NULL);
	atomic_store(&extents->had_hooks, false);
}
