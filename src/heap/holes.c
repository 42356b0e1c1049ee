// Holes of all arenas, and of magazines: a walk over the page map, from slab to slab, a part of it at each step of the background thread.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/holes.h"

#include "conf/options.h"
#include "heap/arena.h"
#include "magazine/magazine.h"
#include "pages/page_map.h"
#include "slab/holes.h"

enum { CHUNKS_A_STEP = 16, LG_STEPS_A_WALK = 4, WALK_MS_LEAST = 250 };

// Of the background thread.
static struct {
	uintptr_t at;        // 0: between two walks
	uint64_t next_walk;  // ms
	bool later, pending; // a later walk may find more: this walk says so, the last one did
} walk;

// The bin of the slab that seems to begin there, of magazines where there is no arena; it is looked at again under the bin's lock.
static struct bin *bin_of_slab_at(uintptr_t start, struct arena *arena)
{
	unsigned class = word_class(page_map_word((void *)start));
	const struct run *run = class >= SLAB_CLASSES ? NULL : page_map_run((void *)start);
	struct bin *bin;

	if (run == NULL || run_start(run) != start)
		return NULL;
	if (arena != NULL)
		return class == 0 ? NULL : &arena->bins[class];
	bin = __atomic_load_n(&run->bin, __ATOMIC_RELAXED); // once: the run may become another's meanwhile
	return magazines_own(bin) ? bin : NULL;
}

static size_t walk_over(uintptr_t start, uintptr_t end, const struct arena *only, bool always, bool *later)
{
	size_t given = 0;

	for (; start < end; start = page_map_next_run(start, end)) {
		struct arena *arena = arena_of_word(page_map_word((void *)start));
		struct bin *bin = only != NULL && arena != only ? NULL : bin_of_slab_at(start, arena);

		if (bin == NULL || !bin_has_holes(bin, always) || (arena != NULL && !arena_enter(arena)))
			continue;
		given += bin_give_holes(bin, start, always, later);
		if (arena != NULL)
			arena_leave(arena);
	}
	return given;
}

static bool begin_walk(void)
{
	bool later = magazines_begin_walk();

	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		for (unsigned class = 1; class < SLAB_CLASSES; class++)
			later |= bin_begin_walk(&arena->bins[class]);
	return later;
}

size_t holes_give(const struct arena *arena)
{
	bool later;

	return walk_over(page_map_first_chunk(), page_map_last_chunk_end(), arena, true, &later);
}

bool holes_step(uint64_t now_ms)
{
	uintptr_t end = page_map_last_chunk_end();
	size_t step = max_size(CHUNKS_A_STEP * CHUNK_BYTES, round_up((end - page_map_first_chunk()) >> LG_STEPS_A_WALK, CHUNK_BYTES));

	if (options.dirty_decay_ms < 0)
		return false;
	if (walk.at == 0) {
		if ((int64_t)(now_ms - walk.next_walk) < 0)
			return walk.pending;
		walk.at = page_map_first_chunk();
		walk.later = begin_walk();
	}
	walk_over(walk.at, min_size(walk.at + step, end), NULL, false, &walk.later);
	walk.at += step;
	if (walk.at < end)
		return true;
	walk.at = 0;
	walk.next_walk = now_ms + max_size(WALK_MS_LEAST, (size_t)options.dirty_decay_ms / 2); // from its end: in between the thread may come to rest
	walk.pending = walk.later;
	return walk.pending;
}
