// Medium objects and kept runs, while nobody watches; and frees of sampled objects.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/medium.h"

#include <errno.h>

#include "heap/door.h"
#include "heap/kept.h"
#include "heap/large.h"
#include "heap/own_runs.h"
#include "heap/samples.h"

// For whatever reason, or somebody has asked for it.
static bool door_is_closed(const struct front *front)
{
	return (words.door | atomic_load_explicit(&front->door_wanted, memory_order_relaxed)) != 0;
}

// For the thread's exact counters alone, and nobody has asked for a change.
static bool only_counts(const struct front *front)
{
	return words.door == DOOR_COUNT && atomic_load_explicit(&front->door_wanted, memory_order_relaxed) == DOOR_COUNT;
}

static inline __attribute__((always_inline)) void *at_hand(struct front *front, size_t size)
{
	void *object = own_runs_alloc(front, size);

	return LIKELY(object != NULL) ? object : large_alloc_kept(front->arena, size);
}

static __attribute__((noinline)) void *counted_at_hand(struct front *front, size_t size)
{
	void *object = only_counts(front) ? at_hand(front, size) : NULL;

	if (object != NULL)
		front->allocated += class_round_large(size);
	return object;
}

static inline __attribute__((always_inline)) void *by_door(struct front *front, size_t size)
{
	return UNLIKELY(door_is_closed(front)) ? counted_at_hand(front, size) : at_hand(front, size);
}

// What is not at hand is not counted here: the slow path does it.
static __attribute__((noinline)) void *sampled_at_hand(struct front *front, size_t size)
{
	size_t bytes = class_round_large(size);
	void *object;

	if (!sampled_passes(bytes))
		return NULL;
	object = by_door(front, size);
	if (object == NULL)
		words.until[0] += (int64_t)bytes;
	return object;
}

void *medium_at_hand(size_t size)
{
	struct front *front = words.front;

	if (size > KEPT_MOST || front == NULL)
		return NULL;
	return UNLIKELY(front_sizes_closed()) ? sampled_at_hand(front, size) : by_door(front, size);
}

// It counts as a miss, but costs less, and looks are rarer.
static __attribute__((noinline)) void look(struct front *front, const void *caller)
{
	const void *outer = front_free_begins(caller);
	int saved = errno;

	if (front->own_again != 0 && !kept_may(front->arena)) // as of now
		own_runs_give(front, true);
	else if (front->own_again != 0)
		own_runs_tell(front);
	front_look(front);
	errno = saved;
	front_free_ends(outer);
}

static inline bool note_kept(struct front *front, const void *caller)
{
	enum { KEPT_A_LOOK = 64 };

	if (UNLIKELY(++front->misses % KEPT_A_LOOK == 0))
		look(front, caller);
	return true;
}

// By the arena, where the front has no room for it.
static __attribute__((noinline)) bool keep_in_arena(struct front *front, void *object, const void *caller)
{
	const void *outer = front_free_begins(caller);
	int saved = errno;
	bool kept = own_runs_free_over(front, object) || large_keep(front->arena, object, "free");

	if (kept)
		note_kept(front, caller);
	errno = saved;
	front_free_ends(outer);
	return kept;
}

static __attribute__((noinline)) bool free_sample(struct run *run, void *object, const void *caller)
{
	const void *outer = front_free_begins(caller);
	int saved = errno;

	samples_free(run, object, "free");
	errno = saved;
	front_free_ends(outer);
	return true;
}

// A sample of a size that is kept in magazines, which it is no more. False: it is left to the slow path, as any object for which there is no room.
// The word of what is no start of a sample is 0, and the magazine of class 0 is always closed.
static __attribute__((noinline)) bool push_marked(struct front *front, struct run *run, void *object)
{
	unsigned word = large_unmark(run, object, "free"), class = word_class(word);
	void **top = front->top[class];

	if (UNLIKELY((uintptr_t)*top != word))
		return false;
	*top = object;
	front->top[class] = top + 1;
	return true;
}

static __attribute__((noinline)) bool keep_elsewhere(struct front *front, void *object, const void *caller)
{
	struct run *run = page_map_known_run(object);

	if (samples_has(run, (unsigned)words.word))
		return free_sample(run, object, caller);
	if (run != NULL && run->size_class != 0)
		return push_marked(front, run, object);
	return keep_in_arena(front, object, caller);
}

static inline __attribute__((always_inline)) bool keep(struct front *front, void *object, const void *caller)
{
	return LIKELY(own_runs_free(front, object)) ? note_kept(front, caller) : keep_elsewhere(front, object, caller);
}

static __attribute__((noinline)) bool keep_counted(struct front *front, void *object, const void *caller)
{
	const struct run *run = page_map_known_run(object);
	size_t bytes;

	if (!only_counts(front) || !own_runs_fits(run, object))
		return false;
	bytes = run->bytes;
	if (!keep(front, object, caller))
		return false;
	front->freed += bytes;
	return true;
}

bool medium_keep(void *object, const void *caller)
{
	struct front *front = words.front;

	if (UNLIKELY(door_is_closed(front)))
		return keep_counted(front, object, caller);
	return keep(front, object, caller);
}
