// Reclaim: the steps of giving memory back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reclaim.h"

#include <stdatomic.h>

#include "cache/table.h"
#include "conf/options.h"
#include "heap/front.h"
#include "os/clock.h"

enum { REAP_MS = 500, GARBAGE_WORTH_A_THREAD = 1024 * 1024 };

_Atomic uint32_t reclaim_state = RECLAIM_NO_THREAD;
bool (*reclaim_start_thread)(const void *caller);

size_t reclaim_garbage(const struct arena *arena)
{
	return pages_dirty_bytes(&arena->pages) + atomic_load_explicit(&arena->depot_bytes, memory_order_relaxed);
}

static void arena_step(struct arena *arena, uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&arena->reap_at, memory_order_relaxed);

	if ((int64_t)(now_ms - last) >= REAP_MS &&
	    atomic_compare_exchange_strong_explicit(&arena->reap_at, &last, now_ms, memory_order_relaxed, memory_order_relaxed))
		arena_reap(arena, false);
	pages_decay(&arena->pages, now_ms);
}

// Wakes or starts the background thread, which may need memory itself: nothing is held here.
static void wake(void)
{
	uint32_t asleep = RECLAIM_ASLEEP, none = RECLAIM_NO_THREAD;

	if (atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE))
		os_word_wake(&reclaim_state);
	else if (reclaim_start_thread != NULL && atomic_compare_exchange_strong(&reclaim_state, &none, RECLAIM_AWAKE) &&
		 !reclaim_start_thread(words.caller))
		atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
}

void reclaim_expect_bytes(size_t garbage)
{
	if (garbage > GARBAGE_WORTH_A_THREAD && atomic_load_explicit(&reclaim_state, memory_order_relaxed) != RECLAIM_AWAKE &&
	    options.background_thread && options.dirty_decay_ms >= 0)
		wake();
}

void reclaim_expect(struct arena *arena, size_t more)
{
	reclaim_expect_bytes(reclaim_garbage(arena) + more);
}

void reclaim_look(struct arena *arena, uint64_t now_ms)
{
	arena_step(arena, now_ms);
	reclaim_expect(arena, 0);
}

bool reclaim_step(uint64_t now_ms)
{
	bool left = false;

	for (unsigned i = 0; i < arenas_created(); i++) {
		struct arena *arena = arena_of(i);

		arena_step(arena, now_ms);
		left |= reclaim_garbage(arena) > 0;
	}
	left |= caches_step(now_ms);
	magazines_trim(false, now_ms);
	return left || magazines_dirty_bytes() > 0;
}

bool reclaim_everything(void)
{
	bool given = false;

	if (words.front != NULL)
		front_flush(words.front);
	for (unsigned i = 0; i < arenas_created(); i++) {
		arena_reap(arena_of(i), true);
		given |= pages_purge(&arena_of(i)->pages, 0);
	}
	given |= caches_reap(false, NULL);
	magazines_trim(true, 0);
	return given;
}
