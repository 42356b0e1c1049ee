// Medium objects and kept runs, while nobody watches.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/medium.h"

#include <errno.h>

#include "heap/kept.h"
#include "heap/large.h"

// For whatever reason, or somebody has asked for it, or samples.
static bool door_is_closed(const struct front *front)
{
	return front_sizes_closed() || (words.door | atomic_load_explicit(&front->door_wanted, memory_order_relaxed)) != 0;
}

void *medium_at_hand(size_t size)
{
	struct front *front = words.front;

	if (size > KEPT_MOST || front == NULL || door_is_closed(front))
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
	errno = saved;
	return kept;
}
