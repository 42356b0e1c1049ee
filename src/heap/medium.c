// Medium objects and kept runs, while nobody watches; and frees of sampled objects.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/medium.h"

#include <errno.h>

#include "heap/door.h"
#include "heap/kept.h"
#include "heap/large.h"

// For more than the thread's exact counters, or somebody has asked for a change.
static bool door_is_closed(const struct front *front)
{
	uint8_t wanted = atomic_load_explicit(&front->door_wanted, memory_order_relaxed);

	return (wanted & ~DOOR_COUNT) != 0 || wanted != words.door;
}

void *medium_at_hand(size_t size)
{
	struct front *front = words.front;
	void *object;

	if (size > KEPT_MOST || front == NULL || door_is_closed(front) || front_sizes_closed())
		return NULL;
	object = large_alloc_kept(front->arena, size);
	if (object != NULL && UNLIKELY(words.door != 0))
		front->allocated += class_round(size);
	return object;
}

// It counts as a miss, but costs less, and looks are rarer.
static void note_kept(struct front *front)
{
	enum { KEPT_A_LOOK = 64 };

	if (UNLIKELY(++front->misses % KEPT_A_LOOK == 0))
		front_look(front);
}

// Of a size that is kept in magazines, and sampled. False: it is none.
static bool push_marked(struct front *front, void *object)
{
	unsigned word = large_unmark(object, "free");

	if (word == 0)
		return false;
	front_push(front, word_class(word), object);
	return true;
}

bool medium_keep(void *object)
{
	struct front *front = words.front;
	bool is_own = front != NULL && page_map_word(object) == front->word;
	size_t counted;
	bool kept;
	int saved;

	if (!is_own || door_is_closed(front))
		return false;
	saved = errno;
	counted = UNLIKELY(words.door != 0) ? large_size(object) : 0;
	kept = large_keep(front->arena, object, "free");
	if (kept)
		note_kept(front);
	else
		kept = push_marked(front, object);
	if (kept)
		front->freed += counted;
	errno = saved;
	return kept;
}
