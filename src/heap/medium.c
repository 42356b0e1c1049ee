// Medium objects and kept runs, while nobody watches; and frees of sampled objects.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/medium.h"

#include <errno.h>

#include "heap/kept.h"
#include "heap/large.h"

// For whatever reason, or somebody has asked for it.
static bool door_is_closed(const struct front *front)
{
	return (words.door | atomic_load_explicit(&front->door_wanted, memory_order_relaxed)) != 0;
}

void *medium_at_hand(size_t size)
{
	struct front *front = words.front;

	if (size > KEPT_MOST || front == NULL || door_is_closed(front) || front_sizes_closed())
		return NULL;
	return large_alloc_kept(front->arena, size);
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
	bool kept;
	int saved;

	if (!is_own || door_is_closed(front))
		return false;
	saved = errno;
	kept = large_keep(front->arena, object, "free");
	if (kept)
		note_kept(front);
	else
		kept = push_marked(front, object);
	errno = saved;
	return kept;
}
