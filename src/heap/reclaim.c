// Reclaim: the steps of giving memory back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reclaim.h"

#include <errno.h>
#include <stdatomic.h>

#include "cache/table.h"
#include "conf/options.h"
#include "guard/report.h"
#include "heap/cpu_front.h"
#include "heap/debug.h"
#include "heap/door.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/holes.h"
#include "heap/kept.h"
#include "heap/sampling.h"
#include "heap/sleepers.h"
#include "os/clock.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "os/unseen.h"
#include "pages/chunks.h"

enum {
	REAP_MS = 500,
	GARBAGE_WORTH_A_THREAD = 1024 * 1024,
	ENDING_STEPS = 100,
	ENDING_STEP_MS = 5,
	TURN_TRIM_MS = 1000, // how long a trim waits for a step under way
	TURN_FORK_MS = 50,   // and fork
	DISMISS_MS = 1000,   // and who dismisses the thread that takes it
	RESTARTS_AT_ONCE = 8, // of dismissed ones; more have one for each step's time
};

_Atomic uint32_t reclaim_state = RECLAIM_NO_THREAD;
_Atomic uint64_t reclaim_runs;
_Atomic uint64_t reclaim_ends;
_Atomic bool reclaim_is_unseen;
_Atomic uint32_t reclaim_dismissed;
_Atomic int reclaim_thread;
bool (*reclaim_start_thread)(const void *caller);

// Whose turn it is to give back for the whole process: the address of the thread's words, 0: nobody's. What that thread has in hand, runs that it purges
// or magazines that it empties, a second one would miss, and a child of fork would lose.
static _Atomic uintptr_t turn;
static bool fork_has_turn; // of the one who forks, under the lock of first use
static _Atomic uint64_t forked_at; // ms

static bool is_my_turn(void)
{
	return atomic_load_explicit(&turn, memory_order_relaxed) == (uintptr_t)&words;
}

// False: somebody else had it all the time, or this thread has it already (it was interrupted, or what the program gave it called back).
static bool turn_take(uint64_t most_ms)
{
	_Atomic uint32_t never = 0;
	uintptr_t nobody = 0;

	while (!atomic_compare_exchange_strong_explicit(&turn, &nobody, (uintptr_t)&words, memory_order_acquire, memory_order_relaxed)) {
		if (nobody == (uintptr_t)&words || most_ms-- == 0)
			return false;
		os_word_wait(&never, 0, 1);
		nobody = 0;
	}
	return true;
}

static void turn_leave(bool had)
{
	if (had)
		atomic_store_explicit(&turn, 0, memory_order_release);
}

size_t reclaim_garbage(const struct arena *arena)
{
	return pages_garbage(&arena->pages) + arena_depot_bytes(arena);
}

// Before anything is due nothing is written that others would miss. Whoever comes by comes here, and looks after doors, too.
COLD void reclaim_decay(struct arena *arena, uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&arena->reap_at, memory_order_relaxed);
	bool reap = (int64_t)(now_ms - last) >= REAP_MS;

	doors_look(now_ms);
	if ((!reap && !pages_decay_is_due(&arena->pages, now_ms)) || !arena_enter(arena))
		return;
	if (reap &&
	    atomic_compare_exchange_strong_explicit(&arena->reap_at, &last, now_ms, memory_order_relaxed, memory_order_relaxed))
		arena_reap(arena, false);
	if (pages_decay_is_due(&arena->pages, now_ms))
		kept_give(arena, false);
	pages_decay(&arena->pages, now_ms);
	arena_leave(arena);
}

// As in a hook, where nothing is sampled.
COLD bool reclaim_start_unwatched(bool (*start)(const void *caller), const void *caller)
{
	struct front *front = front_get();
	bool in_hook = door_around_hooks(true), started;

	if (front != NULL)
		front->starts = true;
	started = start(caller);
	if (front != NULL)
		front->starts = false;
	if (in_hook)
		door_around_hooks(false);
	return started;
}

// What the C library allocates for the thread is not the program's: this thread's exact counters stay as they are.
static bool start_uncounted(const void *caller)
{
	struct front *front = words.front;
	uint64_t allocated = front == NULL ? 0 : front->allocated, freed = front == NULL ? 0 : front->freed;
	uint64_t peak = front == NULL ? 0 : front->peak;
	bool watched = UNLIKELY(sampling_is_on() || trace_is_on());
	bool started = watched ? reclaim_start_unwatched(reclaim_start_thread, caller) : reclaim_start_thread(caller);

	if (front == NULL || words.front != front)
		return started;
	front->interval_told -= front->allocated - allocated; // what is untold stays untold
	front->allocated = allocated;
	front->freed = freed;
	front->peak = peak;
	return started;
}

// What the C library allocates for a thread, and keeps for the next one, is not to go when the program resets an arena of its own.
static bool may_start(void)
{
	return reclaim_start_thread != NULL && !os_is_shut_in() &&
	       (words.front == NULL || !words.front->arena->is_explicit);
}

COLD bool reclaim_may_be_unseen(void)
{
	if (!os_process_is_single() || options.front == FRONT_CPU || debugging() || trace_is_on() || tracing_is_begun() || sampling_is_on() || caches_end() != 0 || guard_told != NULL ||
	    atomic_load(&black_box) != NULL || atomic_load(&black_box_wanted))
		return false;
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		if (!extents_are_zero(&arena->pages.extents))
			return false;
	return true;
}

// Of this thread, which a child of fork goes on with alone; a handler may fork amid them.
static __thread uint32_t dismissals;
static _Atomic bool was_dismissed; // one that was there, which may have left something

// Who is too slow ends as soon as it can, and takes the dismissal back itself; until then none comes after it. Where it has, who dismissed it does.
enum { HAS_ENDED = 1 << 30 };
static _Atomic uint32_t owed;

void reclaim_unseen_begins(void)
{
	atomic_store(&owed, 0);
}

void reclaim_unseen_ended(void)
{
	atomic_fetch_sub(&reclaim_dismissed, atomic_exchange(&owed, HAS_ENDED) & ~(uint32_t)HAS_ENDED);
}

bool reclaim_is_shut_out(void)
{
	return atomic_load(&os_is_sandboxed) != 0 && !reclaim_is_unseen;
}

// In a child that shares the parent's memory it is the parent's.
bool reclaim_dismiss(void)
{
	uint32_t asleep = RECLAIM_ASLEEP;

	if (reclaim_is_shut_out() || !os_process_is_own())
		return false;
	dismissals++;
	atomic_fetch_add(&reclaim_dismissed, 1);
	if (!reclaim_is_unseen)
		return true;
	os_word_wake_all(&reclaim_dismissed);
	if (atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE))
		os_word_wake(&reclaim_state);
	if (!os_unseen_wait(DISMISS_MS)) {
		dismissals--;
		if (atomic_fetch_add(&owed, 1) & HAS_ENDED)
			reclaim_unseen_ended();
		return false;
	}
	reclaim_is_unseen = false;
	atomic_store(&was_dismissed, true);
	return true;
}

static bool recall(bool dismissed)
{
	if (!dismissed)
		return false;
	dismissals--;
	return atomic_fetch_sub(&reclaim_dismissed, 1) == 1;
}

COLD void reclaim_send_away(void)
{
	uint64_t before = os_signals_block();

	recall(reclaim_dismiss());
	os_signals_restore(before);
}

void reclaim_fork_child_dismissals(void)
{
	atomic_store(&owed, 0);
	atomic_store(&reclaim_dismissed, dismissals);
}

// With no signal between the word and the thread: a handler's fork would leave its child a thread that the word knows nothing of.
static void start(const void *caller)
{
	uint32_t none = RECLAIM_NO_THREAD;
	uint64_t before = os_signals_block();
	int saved = errno;

	if (atomic_compare_exchange_strong(&reclaim_state, &none, RECLAIM_AWAKE) && !start_uncounted(caller))
		atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
	errno = saved;
	os_signals_restore(before);
}

static bool has_ended(void)
{
	int number;

	if (atomic_load(&reclaim_state) != RECLAIM_NO_THREAD)
		return false;
	number = atomic_load(&reclaim_thread);
	return number == 0 || os_thread_is_gone(number);
}

// It may itself be the one that calls, in what the program gave it to call.
COLD void reclaim_shut_in(void)
{
	_Atomic uint32_t never = 0;
	bool own = os_process_is_own();

	if (own)
		recall(reclaim_dismiss());
	else
		reclaim_is_unseen = false;
	if (!own || atomic_load(&reclaim_thread) == os_thread_number())
		return;
	os_word_wake_all(&os_is_sandboxed);
	for (int i = 0; i < DISMISS_MS && !has_ended(); i++) {
		reclaim_wake();
		os_word_wait(&never, 0, 1);
	}
	if (has_ended())
		atomic_store(&reclaim_thread, 0);
}

// Wakes or starts the background thread, which may need memory itself: nothing is held here.
static void wake(const void *caller)
{
	uint32_t asleep = RECLAIM_ASLEEP;

	if (reclaim_is_unseen && !reclaim_may_be_unseen())
		recall(reclaim_dismiss());
	if (atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE))
		os_word_wake(&reclaim_state);
	else if (may_start() && atomic_load(&reclaim_state) == RECLAIM_NO_THREAD)
		start(caller);
}

// Who changes its user again and again does not pay for a thread each time: a few at once, then one for each step's time.
static bool may_restart(void)
{
	static _Atomic uint64_t due;
	uint64_t now = os_clock_ms(), at = atomic_load(&due);

	if (at > now + RESTARTS_AT_ONCE * RECLAIM_STEP_MS)
		return false;
	atomic_store(&due, (at > now ? at : now) + RECLAIM_STEP_MS);
	return true;
}

// What the dismissed one left an idle process would keep. By a handler, too: of the C library nothing is called for one that it does not know of.
void reclaim_recall(bool dismissed)
{
	if (recall(dismissed) && atomic_exchange(&was_dismissed, false) && options.background_thread && reclaim_may_be_unseen() && reclaim_is_left(true) &&
	    may_restart())
		wake(NULL);
}

// The same where the kernel refused: there is no filter.
void reclaim_let_out(void)
{
	if (!os_is_shut_in() && atomic_exchange(&was_dismissed, false) && options.background_thread && reclaim_may_be_unseen() && reclaim_is_left(true) &&
	    may_restart())
		wake(NULL);
}

COLD void reclaim_wake(void)
{
	uint32_t asleep = RECLAIM_ASLEEP;

	if (atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE))
		os_word_wake(&reclaim_state);
}

void reclaim_thread_ended(bool is_first)
{
	if (!is_first && atomic_load_explicit(&reclaim_ends, memory_order_relaxed) == 0)
		return;
	atomic_fetch_add(&reclaim_ends, 1);
	reclaim_wake();
}

// One that is awake is let be, unless it would leave what there is for another to do.
static bool may_wake(void)
{
	return options.background_thread && (atomic_load_explicit(&reclaim_state, memory_order_relaxed) != RECLAIM_AWAKE ||
					     UNLIKELY(reclaim_is_unseen && !reclaim_may_be_unseen()));
}

static void wake_if_worth(size_t garbage)
{
	if (garbage > GARBAGE_WORTH_A_THREAD)
		wake(words.caller);
}

// What one arena holds speaks for all of them: threads that do the same leave as much behind in each.
static void wake_if_worth_in_all(size_t garbage)
{
	wake_if_worth(garbage * arenas_live());
}

void reclaim_expect_bytes(size_t garbage)
{
	sampling_look();
	if (options.dirty_decay_ms >= 0 && may_wake())
		wake_if_worth(garbage);
}

void reclaim_set_background(bool wanted)
{
	_Atomic uint32_t never = 0;

	options.background_thread = wanted;
	atomic_thread_fence(memory_order_seq_cst); // as it is read by who goes to sleep
	if (!wanted && reclaim_is_unseen)
		reclaim_recall(reclaim_dismiss());
	if (wanted || atomic_load(&reclaim_state) != RECLAIM_NO_THREAD)
		wake(NULL); // the program called
	for (int i = 0; i < ENDING_STEPS && !wanted && atomic_load(&reclaim_state) != RECLAIM_NO_THREAD; i++)
		os_word_wait(&never, 0, ENDING_STEP_MS);
}

// The magazines of threads that may come to sleep. A program of one thread gets no second one for them.
static size_t sleepers_bytes(struct arena *arena)
{
	bool alone = options.sleeper_ms < 0 || fronts_live() < 2;

	return alone ? 0 : atomic_load_explicit(&arena->front_bytes, memory_order_relaxed);
}

void reclaim_expect(struct arena *arena, size_t more)
{
	if (may_wake() && pages_decay_ms(&arena->pages) >= 0)
		wake_if_worth_in_all(reclaim_garbage(arena) + sleepers_bytes(arena) + more);
}

void reclaim_look(struct arena *arena, uint64_t now_ms)
{
	sampling_look();
	reclaim_decay(arena, now_ms);
	reclaim_expect(arena, 0);
}

// Nobody has been in the arena since the last step: what is dirty will not be wanted soon. Not at once when the last thread leaves, for
// the next may come: then it would have a page fault for each page that the one before had (docs/decisions/0040).
static bool is_left_alone(struct arena *arena)
{
	uint64_t allocs = __atomic_load_n(&arena->pages.runs.allocs, __ATOMIC_RELAXED);
	unsigned own = words.front != NULL && (words.front->arena == arena || words.front->common == arena); // the background thread's
	bool alone = arena_users(arena) == own && allocs == arena->allocs_at_step;

	arena->allocs_at_step = allocs;
	return alone && reclaim_garbage(arena) > pages_allowed_dirty(&arena->pages) && pages_decay_ms(&arena->pages) >= 0;
}

static bool may_touch(const struct arena *arena, bool unseen)
{
	return !unseen || extents_are_zero(&arena->pages.extents);
}

void reclaim_replace(bool dismissed)
{
	if (recall(dismissed) && atomic_exchange(&was_dismissed, false) && options.background_thread && reclaim_is_left(false))
		wake(NULL);
}

bool reclaim_is_left(bool unseen)
{
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		if (may_touch(arena, unseen) && reclaim_garbage(arena) > 0)
			return true;
	return !unseen && (caches_garbage() > 0 || atomic_load(&black_box_is_behind));
}

static bool step(uint64_t now_ms, bool unseen)
{
	bool left = cpu_fronts_tidy(now_ms);

	if (!unseen)
		sampling_look();
	left |= sleepers_step(now_ms);
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
		if (!may_touch(arena, unseen))
			continue;
		if (is_left_alone(arena))
			reclaim_arena(arena);
		reclaim_decay(arena, now_ms);
		left |= reclaim_garbage(arena) > 0;
	}
	if (!unseen)
		left |= caches_step(now_ms) || atomic_load(&black_box_is_behind);
	left |= holes_step(now_ms);
	left |= atomic_load_explicit(&doors_looks, memory_order_relaxed) != 0;
	magazines_trim(false, now_ms);
	return left || magazines_garbage() > 0;
}

bool reclaim_step(uint64_t now_ms, bool unseen)
{
	bool had = turn_take(0), left = !had || step(now_ms, unseen);

	turn_leave(had);
	return left;
}

static bool give_back(struct arena *arena)
{
	bool given;

	if (!arena_enter(arena))
		return false;
	arena_reap(arena, true);
	kept_give(arena, true);
	given = pages_purge(&arena->pages, 0);
	arena_leave(arena);
	return given;
}

bool reclaim_arena(struct arena *arena)
{
	bool given = give_back(arena);

	return holes_give(arena) > 0 || given;
}

static bool everything(bool holes)
{
	bool given = false, had = turn_take(TURN_TRIM_MS);
	size_t mapped = chunks_mapped_bytes(); // a chunk that has nothing any more goes back whole, wherever that is noticed

	if (words.front != NULL && words.front->inside == 0)
		front_flush(words.front);
	cpu_fronts_flush();
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
		given |= give_back(arena);
		holes |= !extents_are_ours(&arena->pages.extents);
	}
	if (holes)
		given |= holes_give(NULL) > 0;
	given |= caches_reap(false, NULL);
	magazines_trim(true, 0);
	turn_leave(had);
	return given || chunks_mapped_bytes() < mapped;
}

bool reclaim_everything(void)
{
	return everything(true);
}

bool reclaim_room(void)
{
	return everything(false);
}

bool reclaim_fork_prepare(void)
{
	atomic_store_explicit(&forked_at, os_clock_ms(), memory_order_relaxed);
	return fork_has_turn = turn_take(TURN_FORK_MS);
}

// Who had it in the parent is not in the child, unless fork was called in the middle of it.
void reclaim_fork_done(bool child)
{
	turn_leave(fork_has_turn || (child && !is_my_turn()));
	if (!child)
		return;
	atomic_store(&reclaim_ends, 0);
	os_clock_go_on(atomic_load_explicit(&forked_at, memory_order_relaxed)); // else nothing would be due until it is that late again
}
