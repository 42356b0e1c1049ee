// realloc: in place, by moving pages, or by copying.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/heap.h"

#include <stdint.h>
#include <string.h>

#include "conf/options.h"
#include "guard/report.h"
#include "heap/cpu_fast.h"
#include "heap/debug.h"
#include "heap/door.h"
#include "heap/fast.h"
#include "heap/large.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/probe.h"
#include "pages/page_map.h"
#include "watch/trace.h"

_Atomic size_t heap_zero_reallocs;

static __attribute__((noinline)) void free_slow(void *object)
{
	heap_free(object, "realloc");
}

CPU_FAST void free_missed(void *object)
{
	cpu_fast_free(object, free_slow);
}

CPU_FAST void *malloc_missed(size_t size)
{
	void *object = counted_pop(size);

	return LIKELY(object != NULL) ? object : heap_malloc_missed(size);
}

static void *realloc_copy(void *object, size_t old_size, size_t size)
{
	void *fresh = fast_malloc(size, malloc_missed);

	if (fresh == NULL)
		return NULL;
	memcpy(fresh, object, min_size(old_size, size));
	fast_free(object, free_missed);
	return fresh;
}

// To the profile a resize is a free and a new allocation; when it was not possible, nothing.
static void resized(const void *object, void *moved, size_t new_size, uint32_t tally)
{
	if (tally != 0) {
		os_probe_free(object);
		tally_freed(tally);
	}
	if (heap_is_sampled(new_size)) {
		tally = profile_record(&words.front->profile, new_size, words.front->arena->id);
		os_probe_alloc(moved, new_size, tally_weighted_bytes(tally, new_size));
		large_set_sample(moved, tally);
	}
}

void *heap_resize(struct arena *arena, void *object, size_t old_size, size_t new_size)
{
	void *moved = object;
	struct run *left = NULL;
	uint32_t tally;

	if (old_size <= MAGAZINE_MOST || new_size <= MAGAZINE_MOST)
		return NULL;
	tally = large_take_sample(object, "realloc");
	if (!large_resize(object, new_size))
		moved = arena == NULL ? NULL : large_move(arena, object, new_size, &left);
	if (moved == NULL)
		large_set_sample(object, tally);
	else
		resized(object, moved, new_size, tally);
	if (left != NULL && UNLIKELY((words.door & DOOR_TRACE) != 0))
		trace_freed(&words.front->tracer, object);
	if (left != NULL)
		large_leave(left);
	if (moved != NULL && UNLIKELY(words.door != 0))
		door_resized(words.front, moved, old_size, new_size, moved != object);
	if (moved != NULL && new_size < old_size) // perhaps it does nothing more that looks
		reclaim_look(arena_of_word(page_map_word(moved)), os_clock_ms());
	return moved;
}

// Whether a small object has the class of that size already, by the page map alone: it stays as it is, so that nothing comes of an address
// that is no object's. Lists and strings that grow by little ask most often.
static bool fits_already(const void *object, size_t size)
{
	unsigned class = word_class(page_map_word(object));

	return size - 1 < SLAB_MOST && class == size_class(size);
}

// An object's class is always that of the size last asked for: sized frees rely on it.
void *heap_realloc(void *object, size_t size, const char *call)
{
	size_t old_size, new_size;
	void *moved;

	if (debugging())
		return debug_realloc(object, size, call);
	if (object == NULL)
		return fast_malloc(size, heap_malloc_missed);
	if (fits_already(object, size)) {
		door_kept(words.front, class_round(size));
		return object;
	}
	old_size = heap_usable_size(object, call);
	if (size == 0) {
		atomic_fetch_add_explicit(&heap_zero_reallocs, 1, memory_order_relaxed);
		if (options.zero_realloc == ZERO_REALLOC_ABORT)
			guard_report(call, object, "size 0, and the option zero_realloc is abort", 0);
		if (options.zero_realloc == ZERO_REALLOC_FREE) {
			heap_free(object, call);
			return NULL;
		}
	}
	if (size > PTRDIFF_MAX)
		return heap_no_memory();
	new_size = class_round(size);
	if (new_size == old_size) {
		door_kept(words.front, old_size);
		return object;
	}
	moved = min_size(old_size, new_size) <= MAGAZINE_MOST ? NULL : heap_resize(heap_run_arena(new_size), object, old_size, new_size);
	return moved != NULL ? moved : realloc_copy(object, old_size, size);
}
