// Sleepers: finding threads that stand still, and the three steps.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/sleepers.h"

#include <stdatomic.h>

#include "conf/options.h"
#include "heap/capacity.h"
#include "heap/fronts.h"
#include "heap/loaded.h"
#include "heap/outbound.h"
#include "heap/own_runs.h"
#include "heap/reload.h"
#include "os/fence.h"
#include "os/sandbox.h"
#include "os/thread.h"

enum {
	LOOK_MS = 500,       // between two looks at a front
	WORTH_BYTES = 4096,  // that the magazines of a front can hold at least for it to be visited
};

// Its magazines are what the thread works with, and nobody resets its arena.
static bool may_be_visited(const struct front *front)
{
	return front->words->door == 0 && atomic_load_explicit(&front->door_wanted, memory_order_relaxed) == 0 &&
	       !front->arena->is_explicit;
}

void sleeper_close(struct front *front, struct loot *loot)
{
	atomic_store_explicit(&front->visited, true, memory_order_relaxed);
	for (unsigned class = 1; class < CLASSES; class++)
		loot->top[class] = __atomic_exchange_n(&front->words->top[class], FRONT_CLOSED, __ATOMIC_RELAXED);
}

// The rounds of the loaded magazine that may be taken.
static uint32_t below_uppermost(const struct front *front, unsigned class, void **top)
{
	const struct magazine *loaded = front->loaded[class];
	uint32_t rounds;

	if (loaded == NULL || !front_is_closed(front, class))
		return 0;
	rounds = front_rounds_below(front, class, top);
	return rounds > 0 && rounds <= loaded->capacity ? rounds - 1 : 0;
}

static void take_rounds(struct front *front, unsigned class, struct loot *loot)
{
	uint32_t most = below_uppermost(front, class, loot->top[class]);

	loot->first[class] = loot->rounds;
	for (uint32_t i = 0; i < most && loot->rounds < LOOT_ROUNDS; i++) {
		void **slot = &front->loaded[class]->round[i], *round = __atomic_load_n(slot, __ATOMIC_RELAXED);

		if (!magazine_is_round(round) || (uintptr_t)round <= UINT16_MAX ||
		    !__atomic_compare_exchange_n(slot, &round, MAGAZINE_GAP, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break;
		loot->round[loot->rounds++] = round;
	}
	loot->count[class] = loot->rounds - loot->first[class];
}

// No less than all of it: a closed outbound magazine counts as empty.
static void take_outbound(struct front *front, unsigned class, struct loot *loot)
{
	struct outbound *outbound = &front->outbound[class];

	loot->outbound_top[class] = NULL;
	if (outbound->magazine != NULL)
		loot->outbound_top[class] = __atomic_exchange_n(&outbound->top, FRONT_CLOSED, __ATOMIC_RELAXED);
}

bool sleeper_take(struct front *front, struct loot *loot)
{
	if (__atomic_load_n(&front->inside, __ATOMIC_ACQUIRE) != 0 || !may_be_visited(front))
		return false;
	loot->arena = front->arena;
	loot->common = front->common;
	loot->rounds = 0;
	for (unsigned class = 1; class < CLASSES; class++) {
		take_rounds(front, class, loot);
		take_outbound(front, class, loot);
	}
	return true;
}

// The thread may have come by the word of the class while it was open again. A slot whose round it has got it overwrites afterwards, or
// has already.
static void put_back(struct front *front, unsigned class, struct loot *loot)
{
	for (size_t i = 0; i < loot->count[class]; i++) {
		void *taken = MAGAZINE_GAP;

		__atomic_compare_exchange_n(&front->loaded[class]->round[i], &taken, loot->round[loot->first[class] + i], false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	loot->count[class] = 0;
}

// Moves the outbound rounds to `to`. Returns how many. A send that was under way opens the magazine again, above the gap.
static size_t settle_outbound(struct front *front, unsigned class, struct loot *loot, size_t to, bool fenced)
{
	struct outbound *outbound = &front->outbound[class];
	void **top = loot->outbound_top[class], **closed = FRONT_CLOSED;
	size_t rounds = top == NULL || top == FRONT_CLOSED ? 0 : (size_t)(top - outbound->magazine->round), taken = 0;

	if (rounds > 0 && (!fenced || rounds > LOOT_ROUNDS - to)) {
		__atomic_compare_exchange_n(&outbound->top, &closed, top, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		return 0;
	}
	for (size_t i = 0; i < rounds; i++) {
		void *round = __atomic_exchange_n(&outbound->magazine->round[i], MAGAZINE_GAP, __ATOMIC_RELAXED);

		if (magazine_is_round(round)) // else it was taken before, and a send that was under way opened the magazine again
			loot->round[to + taken++] = round;
	}
	return taken;
}

static void settle_previous(struct front *front, unsigned class, struct loot *loot)
{
	loot->previous[class] = front->previous[class];
	front->previous[class] = NULL;
	front->previous_rounds[class] = 0;
	front->batch[class] = (uint8_t)front_first_batch(class);
}

static void leave(struct front *front)
{
	atomic_store_explicit(&front->visited, false, memory_order_release);
}

void sleeper_settle(struct front *front, struct loot *loot, bool fenced)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		if (!fenced || !front_is_closed(front, class))
			put_back(front, class, loot);
		loot->first_outbound[class] = loot->rounds;
		loot->rounds += settle_outbound(front, class, loot, loot->rounds, fenced);
		settle_previous(front, class, loot);
	}
	loot->first_outbound[CLASSES] = loot->rounds;
	own_runs_unload(front, loot->own);
	leave(front);
}

void loot_give(struct loot *loot)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		struct arena *arena = class < LINE_CLASSES ? loot->arena : loot->common;
		size_t outbound = loot->first_outbound[class];

		rounds_go_home(arena, class, loot->round + loot->first[class], loot->count[class], "free");
		rounds_go_home(arena, class, loot->round + outbound, loot->first_outbound[class + 1] - outbound, "free");
		front_put_away(arena, class, loot->previous[class]);
	}
	own_runs_give_taken(loot->arena, loot->own);
}

bool sleeper_visit(struct front *front, struct loot *loot)
{
	if (__atomic_load_n(&front->inside, __ATOMIC_RELAXED) != 0)
		return false;
	sleeper_close(front, loot);
	if (!os_fence() || !sleeper_take(front, loot)) {
		leave(front);
		return false;
	}
	sleeper_settle(front, loot, os_fence());
	return true;
}

// Changes with every hit and miss, but for pairs that end where they began.
static uint64_t sum_of_words(const struct front *front)
{
	const struct front_words *own = front->words;
	uint64_t sum = front->misses + front->own_bytes;

	for (unsigned class = 0; class < CLASSES; class++)
		sum = sum * 31 + (uintptr_t)__atomic_load_n(&own->top[class], __ATOMIC_RELAXED);
	for (unsigned class = 0; class < SMALL_CLASSES; class++)
		sum = sum * 31 + (uintptr_t)__atomic_load_n(&own->ahead[class], __ATOMIC_RELAXED);
	for (unsigned class = 1; class < CLASSES; class++)
		sum = sum * 31 + (uintptr_t)__atomic_load_n(&front->outbound[class].top, __ATOMIC_RELAXED);
	return sum;
}

static size_t bytes_at_most(const struct front *front)
{
	size_t bytes = outbound_bytes(front) + front->own_bytes;

	for (unsigned class = 1; class < CLASSES; class++)
		bytes += (front->previous_rounds[class] + (size_t)front->loaded_capacity[class]) * class_size(class);
	return bytes;
}

struct pass {
	uint64_t now_ms;
	bool waits; // for a front that stands still not long enough, or not at all
	struct loot loot;
};

static bool is_due(struct front *front, struct pass *pass)
{
	uint64_t sum = sum_of_words(front);

	if (sum != front->still_sum) {
		front->still_sum = sum;
		front->still_since = pass->now_ms;
		front->emptied = false;
	}
	if (front->emptied || bytes_at_most(front) < WORTH_BYTES)
		return false;
	if (pass->now_ms - front->still_since >= (uint64_t)options.sleeper_ms)
		return true;
	pass->waits = true;
	return false;
}

// Its words are not read yet: a thread that ends soon, of whose end we do not hear, may be gone between our question and that, and they with its stack. At
// the next look its front is no more (fronts_end_gone).
static bool is_new(struct front *front, struct pass *pass)
{
	bool new = front->looked_at == 0;

	pass->waits |= new;
	front->looked_at = pass->now_ms;
	return new;
}

// Asked of each anew: it may have gone since fronts_end_gone.
static bool is_sleepers(const struct front *front)
{
	return front != words.front && !os_thread_is_gone(front->thread) && front->words->front == front && may_be_visited(front);
}

static bool refused; // fences are, by the system

static bool can_fence(void)
{
	static bool tried;

	refused = refused || (!tried && !os_fence());
	tried = true;
	return !refused;
}

// Each front once in a pass, and not again before its words change: who is in its slow path will change them.
static bool look(struct front *front, void *argument)
{
	struct pass *pass = argument;

	if (is_new(front, pass) || !is_sleepers(front) || !is_due(front, pass))
		return false;
	bool visited = can_fence() && sleeper_visit(front, &pass->loot);

	front->emptied = true;
	front->still_sum = sum_of_words(front);
	front->still_since = pass->now_ms;
	return visited;
}

bool sleepers_step(uint64_t now_ms)
{
	static uint64_t looked_at;
	struct pass pass;

	if (options.sleeper_ms < 0 || refused || atomic_load_explicit(&os_is_sandboxed, memory_order_relaxed) != 0)
		return false;
	if (now_ms - looked_at < LOOK_MS) // whoever has worked since then is seen at the next look
		return true;
	looked_at = now_ms;
	fronts_end_gone();
	pass.now_ms = now_ms;
	pass.waits = false;
	for (bool go_on = false; fronts_find(go_on, look, &pass); go_on = true) // anew from the first each time 20,000 threads took half a minute
		loot_give(&pass.loot);
	return pass.waits;
}
