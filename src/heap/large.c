// Large objects: page runs with a word at their first granule.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/large.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "guard/report.h"
#include "heap/kept.h"
#include "heap/own_runs.h"
#include "heap/samples.h"
#include "os/pages.h"
#include "os/probe.h"
#include "pages/page_map.h"
#include "watch/tally.h"

// Moving page tables costs about as much as copying this many bytes.
enum { MOVE_LEAST = 1024 * 1024 };

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static size_t run_bytes(size_t size)
{
	return round_up(size, os_page_size());
}

// `moved`: bytes of an object that has outgrown its place, and will be moved there; 0: it is another one.
static struct run *run_alloc(struct arena *arena, size_t size, size_t align, unsigned class, size_t moved, bool *zeroed)
{
	struct run *run = base_alloc(sizeof *run);
	uintptr_t start;

	if (run == NULL)
		return NULL;
	if (size > SLAB_MOST) // smaller runs are samples
		arena_reap_before_growth(arena, run_bytes(size));
	start = moved > 0 ? pages_alloc_grown(&arena->pages, run_bytes(size), moved, zeroed) :
			    pages_alloc(&arena->pages, run_bytes(size), align, zeroed);
	if (start == 0) {
		base_free(run, sizeof *run);
		return NULL;
	}
	*run = (struct run){ .node.key = start, .bytes = size, .arena = (uint16_t)arena->id, .size_class = (uint8_t)class };
	return run;
}

void large_release(struct run *run)
{
	struct pages *pages = &arena_of(run->arena)->pages;
	uintptr_t start = run_start(run);
	size_t bytes = run_bytes(run->bytes);

	base_free(run, sizeof *run);
	pages_free(pages, start, bytes);
}

// A run enters the page map and is an object. NULL, and it is freed: no memory for the map.
static void *begin(struct arena *arena, struct run *run)
{
	if (!page_map_set(run_start(run), 1, (unsigned)arena_word(arena->id, run->size_class), run)) {
		large_release(run);
		return NULL;
	}
	count(&arena_large_count(arena, run->bytes)->allocated);
	return (void *)run_start(run);
}

void *large_alloc_kept(struct arena *arena, size_t size)
{
	unsigned class = size_class_large(size);
	struct run *run = kept_take_class(arena, class);
	void *object;

	if (run == NULL)
		return NULL;
	object = (void *)run_start(run);
	page_map_set_again(object, (unsigned)arena_word(arena->id, 0), run);
	count(&arena->large[class - SLAB_CLASSES].allocated);
	return object;
}

static struct run *take_at_hand(struct arena *arena, size_t size)
{
	struct front *front = words.front;
	struct run *run = front != NULL && front->arena == arena ? own_runs_take(front, size) : NULL;

	return run != NULL ? run : kept_take(arena, size);
}

void *large_alloc(struct arena *arena, size_t size, size_t align, unsigned class, bool *zeroed)
{
	bool is_zero = false;
	struct run *run = align > os_page_size() ? NULL : take_at_hand(arena, size);

	if (run != NULL)
		run->size_class = (uint8_t)class;
	else
		run = run_alloc(arena, size, align, class, 0, zeroed == NULL ? NULL : &is_zero);
	if (zeroed != NULL)
		*zeroed = is_zero;
	return run == NULL ? NULL : begin(arena, run);
}

static struct run *large_run(const void *object)
{
	struct run *run = page_map_run(object);

	return run != NULL && run->bin == NULL && run_start(run) == (uintptr_t)object ? run : NULL;
}

// Behind a sampled object that is not kept in magazines, in the rest of its last page, unless the page ends there.
static bool has_fence(const struct run *run)
{
	return run_bytes(run->bytes) - run->bytes >= FENCE_BYTES;
}

static void check_fence(const struct run *run, const char *call)
{
	if (LIKELY(has_fence(run)))
		sample_check_fence((void *)run_start(run), run->bytes, call);
}

void large_note_freed(const struct run *run)
{
	count(&arena_large_count(arena_of(run->arena), run->bytes)->freed);
	if (UNLIKELY(run->sample != 0)) {
		os_probe_free((void *)run_start(run));
		tally_freed(run->sample);
		if (run->size_class == 0) // large_mark makes none
			check_fence(run, "free");
	}
}

// The word is taken atomically: of two threads that free the same object one is told.
static void take(const struct run *run, const void *object, const char *call)
{
	if (run == NULL || page_map_take_word(object) == 0)
		guard_report(call, object, "not the start of a live object: freed already, or inside one", 0);
}

static void end(struct run *run, void *object, const char *call)
{
	take(run, object, call);
	large_note_freed(run);
	page_map_forget_run(object);
}

struct run *large_end(void *object, const char *call)
{
	struct run *run = large_run(object);

	end(run, object, call);
	return run;
}

// Only sizes of classes, lest a slot give out less than its class.
bool large_keep(struct arena *arena, void *object, const char *call)
{
	struct run *run = page_map_known_run(object);
	unsigned class;

	if (run == NULL || run->bin != NULL || run_start(run) != (uintptr_t)object || run->size_class != 0 || !kept_wants(arena, run->bytes))
		return false;
	class = size_class(run->bytes);
	if (class_size(class) != run->bytes)
		return false;
	if (class < CLASSES || run->sample != 0) {
		end(run, object, call);
		kept_put(arena, run);
		return true;
	}
	take(run, object, call);
	count(&arena->large[class - SLAB_CLASSES].freed);
	page_map_forget_run(object);
	kept_put_class(arena, run, class);
	return true;
}

void large_free(void *object, const char *call)
{
	large_release(large_end(object, call));
}

size_t large_size(const void *object)
{
	struct run *run = large_run(object);

	return run == NULL ? 0 : run->bytes;
}

// Not what hooks gave, be they gone, which need not be zero when it comes back.
bool large_clear(void *object, size_t from, size_t to)
{
	struct run *run = large_run(object);
	struct pages *pages = &arena_of(run->arena)->pages;
	size_t first = run_bytes(from), end = run_bytes(to);
	int saved = errno;
	bool done = extents_are_zero(&pages->extents) && pages_clear(pages, run_start(run) + first, end - first);

	if (done)
		memset((char *)object + from, 0, first - from);
	errno = saved;
	return done;
}

bool large_resize(void *object, size_t new_size)
{
	struct run *run = large_run(object);
	struct pages *pages = &arena_of(run->arena)->pages;
	bool zeroed;

	if (run->size_class != 0 || new_size <= MAGAZINE_MOST)
		return false; // its word names its size
	if (run_bytes(new_size) > run_bytes(run->bytes)) {
		if (!pages_extend(pages, run_start(run), run_bytes(run->bytes), run_bytes(new_size), &zeroed))
			return false;
	} else if (run_bytes(new_size) < run_bytes(run->bytes) &&
		   !pages_shrink(pages, run_start(run), run_bytes(run->bytes), run_bytes(new_size)))
		return false;
	count(&arena_large_count(arena_of(run->arena), run->bytes)->freed);
	count(&arena_large_count(arena_of(run->arena), new_size)->allocated);
	run->bytes = new_size;
	return true;
}

// Not what hooks gave, whose mappings are theirs; nor in explicit arenas, in which no place may be lost.
static bool may_move(const struct arena *arena)
{
	return !arena->is_explicit && extents_are_zero(&arena->pages.extents);
}

void *large_move(struct arena *arena, void *object, size_t new_size, struct run **left)
{
	struct run *run = large_run(object);
	size_t old_bytes = run_bytes(run->bytes);
	struct run *to;
	void *fresh;
	bool zeroed;

	if (old_bytes < MOVE_LEAST || new_size < run->bytes || !may_move(arena) || !may_move(arena_of(run->arena)))
		return NULL;
	to = run_alloc(arena, new_size, 0, 0, old_bytes, &zeroed);
	fresh = to == NULL ? NULL : begin(arena, to);
	if (fresh == NULL)
		return NULL;
	switch (os_pages_move(object, fresh, old_bytes)) {
	case OS_MOVED:
		break;
	case OS_TARGET_LOST: // the place stays allocated for ever, for nobody may use it
		base_free(large_end(fresh, "realloc"), sizeof *to);
		return NULL;
	case OS_NOT_MOVED:
		large_free(fresh, "realloc");
		return NULL;
	}
	count(&arena_large_count(arena_of(run->arena), run->bytes)->freed);
	page_map_take_word(object);
	page_map_clear(run_start(run), 1);
	*left = run;
	return fresh;
}

void large_leave(struct run *left)
{
	pages_free_clean(&arena_of(left->arena)->pages, run_start(left), run_bytes(left->bytes));
	base_free(left, sizeof *left);
}

// The fence is there before the sample: a child of fork that resets the arena may find the thread here.
void large_set_sample(void *object, uint32_t tally)
{
	struct run *run = large_run(object);

	if (tally != 0 && has_fence(run))
		sample_set_fence(object, run->bytes);
	atomic_thread_fence(memory_order_release);
	run->sample = tally;
}

uint32_t large_take_sample(void *object, const char *call)
{
	struct run *run = large_run(object);
	uint32_t tally = run == NULL ? 0 : run->sample;

	if (tally != 0) {
		run->sample = 0;
		check_fence(run, call);
	}
	return tally;
}

void large_mark(void *object, uint32_t tally)
{
	struct run *run = page_map_known_run(object);

	if (tally == 0)
		return;
	run->sample = tally;
	page_map_put_word(object, (unsigned)arena_word(run->arena, 0));
}

// Without an atomic operation, so that of two frees at once it is not always one that is told: of what is not sampled, and goes to a magazine, none is.
unsigned large_unmark(struct run *run, void *object, const char *call)
{
	uint32_t tally;
	unsigned word;

	if (run == NULL || run->size_class == 0 || run->bin != NULL || run_start(run) != (uintptr_t)object)
		return 0;
	tally = run->sample;
	run->sample = 0;
	if (UNLIKELY(tally == 0))
		take(NULL, object, call);
	os_probe_free(object);
	tally_freed(tally);
	word = (unsigned)arena_word(run->arena, run->size_class);
	page_map_put_word(object, word);
	return word;
}
