// Explicit arenas: making, resetting and destroying them, their settings, and moving a thread to one.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/explicit.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/base.h"
#include "conf/options.h"
#include "heap/door.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/own_runs.h"
#include "heap/reclaim.h"
#include "heap/samples.h"
#include "os/clock.h"
#include "pages/page_map.h"
#include "pages/sources.h"

enum { NOT_SET = -2 };
static const ssize_t decay_most = (ssize_t)1 << 47; // ms: no step overflows

// For arenas that are made from now on; NOT_SET: by option.
static struct {
	_Atomic ssize_t dirty, muzzy;
} presets = { NOT_SET, NOT_SET };

bool arena_is_live(unsigned id)
{
	const struct arena *arena = arena_of(id);

	return arena != NULL && arena->state == ARENA_LIVE;
}

struct arena *arena_wanted(unsigned id)
{
	if (!heap_ready())
		return NULL;
	if (arena_of(id) == NULL && id < arenas_automatic_most())
		return arena_make_automatic(id);
	return arena_is_live(id) ? arena_of(id) : NULL;
}

int arenas_make(struct extent_hooks_s *hooks, unsigned *id)
{
	struct arena *arena = heap_ready() ? arena_make_explicit() : NULL;

	if (arena == NULL)
		return EAGAIN;
	if (hooks != NULL)
		arena_set_hooks(arena, hooks);
	if (presets.dirty != NOT_SET)
		arena_set_dirty_decay_ms(arena, presets.dirty);
	arena->muzzy_decay_ms = arenas_muzzy_decay_ms();
	*id = arena->id;
	return 0;
}

// --- reset and destroy ---

// The rounds are not drained: their slabs go too.
static void forget_magazines(struct arena *arena)
{
	for (unsigned class = 1; class < CLASSES; class++)
		for (struct magazine *next, *at = depot_reap(&arena->depots[class], true, &arena->depot_rounds[class]); at != NULL; at = next) {
			next = at->next;
			magazine_destroy(at);
		}
}

static void forget_run(uintptr_t start, size_t size)
{
	struct run *run = page_map_run((void *)start);
	bool has_samples;

	if (run == NULL)
		return;
	has_samples = run->bin != NULL && samples_has(run, page_map_word((void *)start));
	page_map_clear(start, run->bin != NULL ? size : 1); // first: a child of fork goes on here, and shall note nothing twice
	if (run->bin == NULL)
		large_note_freed(run);
	else if (has_samples)
		samples_end(run);
	base_free(run, run->bin != NULL ? slab_header_bytes(&run->bin->shape, run->lg_times) : sizeof *run);
}

static void forget_runs(struct arena *arena)
{
	struct vmem_cursor cursor;
	struct vmem_range range;

	for (unsigned class = 1; class < SLAB_CLASSES; class++)
		bin_forget(&arena->bins[class]);
	samples_forget(arena);
	vmem_walk_begin(&arena->pages.runs, &cursor);
	while (vmem_walk_next(&arena->pages.runs, &cursor, &range))
		if (range.type == VMEM_SEGMENT_ALLOC) {
			forget_run(range.start, range.size);
			pages_free(&arena->pages, range.start, range.size);
		}
	vmem_walk_end(&arena->pages.runs, &cursor);
}

// With nothing left in any front, so that what is forgotten is all there is. May be done again from the beginning.
static void forget(struct arena *arena)
{
	if (words.front != NULL && words.front->arena == arena)
		front_drain(words.front);
	explicit_caches_leave(arena);
	forget_magazines(arena);
	forget_runs(arena);
}

static struct arena *begin_reset(unsigned id, unsigned threads, const void *by)
{
	struct arena *arena = arena_of(id);

	fronts_end_gone();
	if (arena == NULL || !arena->is_explicit || fronts_hold(arena) || !arena_close(arena, threads, by))
		return NULL;
	return arena;
}

int arena_reset(unsigned id)
{
	struct arena *arena = begin_reset(id, UINT32_MAX, &words);

	if (arena == NULL)
		return EFAULT;
	forget(arena);
	arena_reopen(arena, ARENA_LIVE);
	reclaim_look(arena, os_clock_ms());
	return 0;
}

// Nothing is purged meanwhile: hooks of the program may be for locks that its own fork handlers have yet to open.
static void finish_reset(struct arena *arena)
{
	ssize_t decay_ms = atomic_exchange(&arena->pages.dirty_decay_ms, -1);

	forget(arena);
	atomic_store(&arena->pages.dirty_decay_ms, decay_ms);
	arena_reopen(arena, ARENA_LIVE);
}

void arenas_finish_resets(void)
{
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		if (arena->state == ARENA_CLOSED && arena->reset_by != NULL && arena->reset_by != &words)
			finish_reset(arena);
}

int arena_destroy(unsigned id, void (*forget_number)(unsigned id))
{
	struct arena *arena = begin_reset(id, 0, NULL);
	struct extent_hooks_s *hooks;

	if (arena == NULL)
		return EFAULT;
	atomic_store(&arena->pages.dirty_decay_ms, -1); // unused spans are given back whole, not purged before
	forget(arena);
	hooks = arena_hooks(arena);
	pages_reset(&arena->pages, arena_of(0) == NULL ? NULL : &arena_of(0)->pages);
	source_end(hooks);
	if (forget_number != NULL)
		forget_number(id);
	arena_reopen(arena, ARENA_DESTROYED);
	return 0;
}

// --- settings ---

static bool is_decay(ssize_t ms)
{
	return ms >= -1 && ms <= decay_most;
}

ssize_t arena_dirty_decay_ms(const struct arena *arena)
{
	return pages_decay_ms(&arena->pages);
}

ssize_t arena_muzzy_decay_ms(const struct arena *arena)
{
	return arena->muzzy_decay_ms;
}

// What the calling thread has at hand of the arena.
static void give_own(const struct arena *arena)
{
	if (words.front != NULL && words.front->arena == arena)
		own_runs_give(words.front, true);
}

int arena_set_dirty_decay_ms(struct arena *arena, ssize_t ms)
{
	if (!is_decay(ms))
		return EFAULT;
	atomic_store(&arena->pages.dirty_decay_ms, ms);
	give_own(arena);
	if (ms == 0 && arena_enter(arena)) {
		pages_purge(&arena->pages, 0);
		arena_leave(arena);
	}
	reclaim_expect(arena, 0);
	return 0;
}

int arena_set_muzzy_decay_ms(struct arena *arena, ssize_t ms)
{
	if (!is_decay(ms))
		return EFAULT;
	atomic_store(&arena->muzzy_decay_ms, ms);
	return 0;
}

ssize_t arenas_dirty_decay_ms(void)
{
	return presets.dirty == NOT_SET ? (ssize_t)options.dirty_decay_ms : presets.dirty;
}

ssize_t arenas_muzzy_decay_ms(void)
{
	return presets.muzzy == NOT_SET ? 0 : presets.muzzy;
}

int arenas_set_dirty_decay_ms(ssize_t ms)
{
	if (!is_decay(ms))
		return EFAULT;
	presets.dirty = ms;
	return 0;
}

int arenas_set_muzzy_decay_ms(ssize_t ms)
{
	if (!is_decay(ms))
		return EFAULT;
	presets.muzzy = ms;
	return 0;
}

void arena_decay(struct arena *arena)
{
	reclaim_decay(arena, os_clock_ms());
}

void arena_purge(struct arena *arena)
{
	give_own(arena);
	reclaim_arena(arena);
}

struct extent_hooks_s *arena_hooks(const struct arena *arena)
{
	return extents_hooks(&arena->pages.extents);
}

// The background thread may be in the arena just now, and be one that calls nothing of the program's.
struct extent_hooks_s *arena_set_hooks(struct arena *arena, struct extent_hooks_s *hooks)
{
	bool dismissed = reclaim_dismiss();
	struct extent_hooks_s *before;

	atomic_store(&extents_around_hooks, door_around_hooks);
	give_own(arena);
	before = extents_set_hooks(&arena->pages.extents, hooks);
	reclaim_replace(dismissed);
	return before;
}

// --- the calling thread ---

// From now on the thread has one arena, which the program knows.
static bool keep_arena(struct front *front, struct arena *arena)
{
	bool has = front->arena == arena && front->common == arena;

	if (!has && !arena_bind(arena))
		return false;
	if (!has)
		front_keep_to(front, arena);
	front->keeps = true;
	return true;
}

int thread_arena(unsigned *id)
{
	struct front *front = front_get();

	if (front == NULL)
		return EAGAIN;
	keep_arena(front, front->arena);
	*id = front->arena->id;
	return 0;
}

int thread_set_arena(unsigned id)
{
	struct front *front = front_get();
	struct arena *arena = arena_wanted(id);

	if (front == NULL)
		return EAGAIN;
	return arena != NULL && keep_arena(front, arena) ? 0 : EFAULT;
}

bool thread_has_cache(void)
{
	front_get(); // what the options close is closed from then on
	return (words.door & DOOR_NOCACHE) == 0;
}

void thread_set_cache(bool wanted)
{
	struct front *front = front_get();

	if (front == NULL || wanted == thread_has_cache())
		return;
	if (wanted) {
		door_open(DOOR_NOCACHE);
		return;
	}
	front_flush(front);
	door_close(DOOR_NOCACHE);
}
