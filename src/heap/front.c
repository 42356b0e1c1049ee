// Front: making one, sending objects home, giving back what is not used, and its end.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/front.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "conf/options.h"
#include "heap/capacity.h"
#include "heap/cpu_front.h"
#include "heap/door.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/loaded.h"
#include "heap/outbound.h"
#include "heap/own_runs.h"
#include "heap/reclaim.h"
#include "heap/reload.h"
#include "heap/samples.h"
#include "os/clock.h"
#include "os/rseq.h"
#include "os/thread.h"
#include "watch/trace.h"

// Closed one slot further down, too: a thread that takes a round while its word is closed from outside counts down what it finds.
void *const front_closed_magazine[3] = { NULL, NULL, MAGAZINE_FULL };

__thread struct front_words words = { .top = { [0 ... CLASSES - 1] = (void **)&front_closed_magazine[2] } };

// A thread has magazines of its own although those of processors serve: when the C library could not register it, and when
// the program bound it to an arena.
static void choose_magazines(struct front *front)
{
	if (cpu_nowhere == NULL)
		return;
	if (front->arena->is_explicit || rseq_number() < 0)
		front->door_wanted &= (uint8_t)~DOOR_CPU;
	else
		front->door_wanted |= DOOR_CPU;
	if (front == words.front)
		door_obey(front);
}

static uint32_t most_bytes(void)
{
	return (uint32_t)min_size(options.tcache_max, MAGAZINE_MOST);
}

COLD void front_keep_up_to(struct front *front, size_t bytes)
{
	front_flush(front);
	front->most_bytes = (uint32_t)min_size(bytes, most_bytes());
}

// In the one that is not its own.
static void count_guest(const struct front *front, unsigned more)
{
	if (front->common != front->arena)
		atomic_fetch_add_explicit(&front->common->guests, more, memory_order_relaxed);
}

void front_move(struct front *front, struct arena *arena, struct arena *common)
{
	front_enter(front);
	if (front->arena != NULL)
		front_forget_capacities(front);
	count_guest(front, -1u);
	front->arena = arena;
	front->common = common;
	count_guest(front, 1);
	for (unsigned class = 0; class < CLASSES; class++)
		front->word[class] = (uint16_t)arena_word(front_arena(front, class)->id, class);
	front->takes_back = front->words != NULL && !arena->is_explicit;
	memset(front->homes, 0, sizeof front->homes);
	if (front->words != NULL) {
		front->words->word = arena_word(arena->id, 0);
		for (unsigned class = 1; class < SMALL_CLASSES; class++)
			front->words->empty[class] = front_word(front, class);
		choose_magazines(front);
	}
	front_leave(front);
}

void front_keep_to(struct front *front, struct arena *arena)
{
	struct arena *before = front->arena;

	front_flush(front);
	front_move(front, arena, arena);
	arena_unbind(before);
}

// `own`: the words of the thread, NULL: it is none's, its tops are its own, and closed.
static COLD struct front *front_create_for(struct arena *arena, struct arena *common, struct front_words *own)
{
	struct front *front = base_alloc(sizeof *front);

	if (front == NULL)
		return NULL;
	memset(front, 0, sizeof *front);
	for (unsigned class = 1; class < CLASSES; class++)
		front->batch[class] = (uint8_t)front_first_batch(class);
	front->tidied_at = os_clock_ms();
	front->most_bytes = most_bytes();
	for (unsigned class = 0; class < CLASSES; class++)
		front->kept[class] = front->outbound[class].top = FRONT_CLOSED;
	front_prepare_to_count(front);
	front->words = own;
	front->thread = own == NULL ? 0 : os_thread_in_process();
	front->top = own == NULL ? front->kept : own->top;
	front_move(front, arena, common);
	return front;
}

COLD struct front *front_create_cache(struct arena *arena)
{
	return front_create_for(arena, arena, NULL);
}

// With the thread counted in.
static struct arena *arena_for_front(void)
{
	struct arena *arena;

	if (cpu_nowhere == NULL)
		return arena_for_thread();
	arena = cpu_front_arena();
	return arena != NULL && arena_bind(arena) ? arena : NULL;
}

bool (*front_is_of_c_library)(const void *caller);

// A thread that has no front and for which the C library frees may be past its hooks: one that never allocated, and takes down its own stack or
// those of others. What is freed goes to its slab.
static bool may_have_ended(void)
{
	return words.ended || (words.caller != NULL && front_may_be_c_library(words.caller));
}

bool front_is_apart(const struct front *front)
{
	return front->keeps || cpu_nowhere != NULL || arenas_apart() || (!front->streams && fronts_are_few());
}

static struct arena *common_at_first(struct arena *arena)
{
	struct arena *common = arena_common(arena);

	return common == arena || cpu_nowhere != NULL || fronts_are_few() ? arena : common;
}

// Without a hook at the thread's end there is no front: its words would be written to when the thread is long gone.
static COLD struct front *front_create(void)
{
	struct arena *arena = heap_ready() && !may_have_ended() ? arena_for_front() : NULL;
	struct front *front = arena == NULL ? NULL : front_create_for(arena, common_at_first(arena), &words);

	if (front == NULL) {
		if (arena != NULL)
			arena_unbind(arena);
		return NULL;
	}
	words.front = front; // first: who closes doors sees by it that the words are there
	fronts_join(front);
	choose_magazines(front);
	if (!os_thread_exit_value(OS_THREAD_END_HEAP, front))
		front_end(front);
	return words.front;
}

struct front *front_get(void)
{
	struct front *front = LIKELY(words.front != NULL) ? words.front : front_create();

	if (LIKELY(front != NULL))
		door_obey(front);
	return front;
}

void front_send(struct front *front, uintptr_t word, void *object)
{
	COUNT_SERVES(COUNT_FREE_FOREIGN);
	struct arena *owner = arena_of_word(word);

	if (UNLIKELY(owner->is_explicit)) { // at home at once, lest it be on its way when the arena is reset
		arena_drain(owner, word_class(word), &object, 1, "free");
		return;
	}
	front_note_miss(front);
	front->homes[word_class(word) < LINE_CLASSES][word >> 14] |= 1ull << (word >> 8 & 63);
	while (!front_send_at_once(front, word, object))
		if (!outbound_make_room(front, word_class(word))) {
			arena_drain(owner, word_class(word), &object, 1, "free");
			return;
		}
}

void front_push(struct front *front, unsigned class, void *object)
{
	while (!front_put(front, class, object))
		if (!front_make_room(front, class)) {
			arena_drain(front_arena(front, class), class, &object, 1, "free");
			return;
		}
}

void front_flush(struct front *front)
{
	front_enter(front);
	for (unsigned class = 1; class < CLASSES; class++) {
		struct arena *arena = front_arena(front, class);
		struct magazine *previous = front->previous[class];

		if (!front_holds(front, class))
			continue;
		front_keep_previous(front, class, NULL);
		front_hand_down(arena, class, front_unload_all(front, class));
		front_put_away(arena, class, previous);
	}
	outbound_flush(front);
	own_runs_give(front, true);
	samples_give(front);
	front_leave(front);
}

COLD void front_drain(struct front *front)
{
	front_enter(front);
	for (unsigned class = 1; class < CLASSES; class++) {
		struct magazine *both[2] = { front->previous[class], front_unload_all(front, class) };

		front_keep_previous(front, class, NULL);
		for (int i = 0; i < 2; i++)
			if (both[i] != NULL) {
				front_drain_magazine(front_arena(front, class), class, both[i]);
				magazine_destroy(both[i]);
			}
	}
	outbound_drain(front);
	own_runs_give(front, true);
	samples_give(front);
	front_leave(front);
}

// Gives away what was not used since the last time: first the previous magazine, then the loaded one (2011, "garbage
// collection … exponential decay").
static COLD void front_tidy(struct front *front)
{
	front_enter(front);
	for (unsigned class = 1; class < CLASSES; class++) {
		if (front->loaded[class] != NULL && front->top[class] == front->seen[class]) {
			if (front->previous[class] != NULL)
				front_give_previous(front, class);
			else {
				front_give_loaded(front, class);
				front_set_capacity(front, class, 0);
			}
			front->batch[class] = (uint8_t)front_first_batch(class);
		}
		front->seen[class] = front->top[class];
	}
	outbound_flush(front);
	own_runs_give(front, false);
	samples_tidy(front);
	front_leave(front);
}

void front_note_miss(struct front *front)
{
	if (++front->misses % MISSES_A_LOOK == 0)
		front_look(front);
}

// A front that is no thread's has all from the arena that it serves.
static void look_at_common(struct front *front, uint64_t now)
{
	bool is_apart = front->common == front->arena;

	if (front->words == NULL)
		return;
	if (is_apart && !front->streams && atomic_load_explicit(&front->arena->streams, memory_order_relaxed))
		front->moves = front->streams = true;
	else if (!is_apart && !front->streams && fronts_look(now))
		front->moves = true;
}

void front_look(struct front *front)
{
	uint64_t now = os_clock_ms();

	if (UNLIKELY(front->inside != 0)) // in a hook of the program, in the middle of a refill
		return;
	if ((int64_t)(now - front->tidied_at) >= TIDY_MS) {
		front->tidied_at = now;
		front_tidy(front);
	}
	arenas_look();
	look_at_common(front, now);
	reclaim_look(front->arena, now);
	if (front->common != front->arena)
		reclaim_look(front->common, now);
}

// Of one that is in no list any more and holds nothing.
static void end(struct front *front)
{
	front_forget_capacities(front);
	trace_thread_end(&front->tracer);
	profile_thread_end(&front->profile);
	count_guest(front, -1u);
	arena_unbind(front->arena);
	base_free(front, sizeof *front);
}

// The hook at a thread's end.
void front_end(void *value)
{
	struct front *front = value;
	struct arena *arena, *common;
	bool is_first;

	if (words.front != front)
		return;
	arena = front->arena;
	common = front->common;
	is_first = os_thread_is_first(front->thread);
	front_enter(front);
	front_flush(front);
	front_close_words(front);
	words.ended = true;
	words.door = 0;
	words.way = 0;
	__atomic_store_n(&words.front, NULL, __ATOMIC_RELAXED);
	fronts_leave(front);
	end(front);
	if (common != arena)
		reclaim_expect(common, 0);
	reclaim_expect(arena, 0); // may start a thread, whose memory then comes from slabs
	reclaim_thread_ended(is_first);
}

// Such a thread made its front in the last round of its hooks, or ended by the system's call alone. The rounds that were ahead are gone with its
// words; of one that was ended in the middle of its slow path nobody knows what its magazines hold.
void fronts_end_gone(void)
{
	for (struct front *front = fronts_take_gone(), *next; front != NULL; front = next) {
		struct arena *arena = front->arena;

		next = front->next;
		front->words = NULL;
		front->top = front->kept;
		if (front->inside == 0)
			front_flush(front);
		end(front);
		arena_leave(arena);
	}
}

void front_destroy_cache(struct front *front)
{
	front_flush(front);
	front_forget_capacities(front);
	base_free(front, sizeof *front);
}
