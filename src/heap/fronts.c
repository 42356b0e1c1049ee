// Fronts: the list of all of them, what they hold together, closing their words from outside, fork.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/fronts.h"

#include <stdatomic.h>
#include <string.h>

#include "heap/capacity.h"
#include "heap/cpu_front.h"
#include "heap/front.h"
#include "heap/loaded.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/thread.h"
#include "util/thread.h"
#include "vmag/format.h"
#include "watch/profile.h"

enum {
	FEW_A_PROCESSOR = 2, // threads, beside the first: one that ends and the one that follows it
	FEW_AFTER_MS = 10,   // the second thread's first allocation, a few turns on the processors,
	FEW_AFTER_US = 15000, // and so much of their time, which on a busy machine comes later
};

// Many: there were once more than FEW_A_PROCESSOR for each processor and the first, or much came to be in common before it was known.
enum { THREADS_UNKNOWN, THREADS_FEW, THREADS_MANY };

static struct {
	struct mutex lock;
	// Under lock.
	struct front *first;
	struct front *behind_found; // where fronts_find goes on
	unsigned count;
	uint8_t door; // what the doors of all threads are closed for
	bool serves_short, leaves_delete;
	bool lost; // there were others, in the parent of a fork
	// Read by anyone.
	_Atomic unsigned threads;   // unknown, few or many
	_Atomic uint64_t second_at; // when there was a second one for the first time, ms; 0: never. Written after
	uint64_t used_then;         // what the process had used of the processors' time by then, us, and
	size_t bytes_then;          // what was resident in the common arena
} fronts = { .lock = MUTEX_INIT(RANK_FRONTS) };

bool fronts_are_few(void)
{
	return atomic_load_explicit(&fronts.threads, memory_order_relaxed) == THREADS_FEW;
}

// A program that starts many threads has them soon.
bool fronts_look(uint64_t now)
{
	unsigned unknown = THREADS_UNKNOWN;
	uint64_t second = atomic_load_explicit(&fronts.second_at, memory_order_acquire);

	if (UNLIKELY(atomic_load_explicit(&fronts.threads, memory_order_relaxed) == THREADS_UNKNOWN) && second != 0 &&
	    now - second >= FEW_AFTER_MS && os_clock_process_us() - fronts.used_then >= FEW_AFTER_US)
		atomic_compare_exchange_strong(&fronts.threads, &unknown,
					       arena_resident_bytes(arena_of(0)) <= fronts.bytes_then + LEFT_BEHIND_MOST ? THREADS_FEW : THREADS_MANY);
	return fronts_are_few();
}

// Under the lock. Those that are apart stay so: their memory is theirs. A program that named another arena before all else may have no first one, and no
// memory for it: then nothing is known.
static COLD __attribute__((noinline)) void count_threads(void)
{
	const struct arena *first = arena_of(0);

	if (fronts.count == 2 && first != NULL && atomic_load_explicit(&fronts.second_at, memory_order_relaxed) == 0) {
		fronts.used_then = os_clock_process_us();
		fronts.bytes_then = arena_resident_bytes(first);
		atomic_store_explicit(&fronts.second_at, os_clock_ms(), memory_order_release);
	}
	if (fronts.count > FEW_A_PROCESSOR * arenas_processors() + 1)
		atomic_store_explicit(&fronts.threads, THREADS_MANY, memory_order_relaxed);
}

COLD void fronts_join(struct front *front)
{
	mutex_lock(&fronts.lock);
	if (fronts.first != front) { // else a handler forked, and this is the child
		front->prev = NULL;
		front->next = fronts.first;
		if (fronts.first != NULL)
			fronts.first->prev = front;
		fronts.first = front;
		fronts.count++;
	}
	front->door_wanted = fronts.door;
	if (fronts.count > 1)
		count_threads();
	mutex_unlock(&fronts.lock);
}

// Under the lock.
static void take_out(struct front *front)
{
	if (front->prev != NULL)
		front->prev->next = front->next;
	else
		fronts.first = front->next;
	if (front->next != NULL)
		front->next->prev = front->prev;
	if (fronts.behind_found == front)
		fronts.behind_found = front->next;
	fronts.count--;
}

void fronts_leave(struct front *front)
{
	mutex_lock(&fronts.lock);
	take_out(front);
	mutex_unlock(&fronts.lock);
}

// The calling thread is there: whoever makes no other threads asks the system nothing, which a sandbox may not allow.
static bool is_gone(const struct front *front)
{
	return front != words.front && os_thread_is_gone(front->thread);
}

// Before another thread's words are written to: a thread without an end that we hear of leaves its front behind, and its words are somebody else's memory.
static bool has_words(const struct front *front)
{
	return !is_gone(front) && __atomic_load_n(&front->words->front, __ATOMIC_RELAXED) == front;
}

// In a child that was made without fork's handlers all other threads are gone, but nobody knows what they were at.
struct front *fronts_take_gone(void)
{
	struct front *gone = NULL;

	mutex_lock(&fronts.lock);
	for (struct front *front = os_process_is_own() ? fronts.first : NULL, *next; front != NULL; front = next) {
		next = front->next;
		if (!is_gone(front))
			continue;
		take_out(front);
		arena_enter_anyway(front->arena);
		front->next = gone;
		gone = front;
	}
	mutex_unlock(&fronts.lock);
	return gone;
}

bool fronts_find(bool go_on, bool (*visit)(struct front *front, void *argument), void *argument)
{
	struct front *front;
	bool found = false;

	mutex_lock(&fronts.lock);
	for (front = go_on ? fronts.behind_found : fronts.first; front != NULL && !found; front = front->next)
		found = visit(front, argument);
	fronts.behind_found = front;
	mutex_unlock(&fronts.lock);
	return found;
}

// Who is at a front's magazines holds the lock.
void front_wait(void)
{
	mutex_lock(&fronts.lock);
	mutex_unlock(&fronts.lock);
}

bool front_has_magazines(const struct front *front)
{
	bool has = false;

	for (unsigned class = 1; class < CLASSES; class++)
		has |= front_holds(front, class);
	return has;
}

bool fronts_hold(const struct arena *arena)
{
	bool hold = false;

	mutex_lock(&fronts.lock);
	for (const struct front *front = fronts.first; front != NULL; front = front->next)
		hold |= front != words.front && (front->arena == arena || front->common == arena) && front_has_magazines(front);
	mutex_unlock(&fronts.lock);
	return hold;
}

// Another thread's words and magazines are out of reach: its loaded magazines count as half full, its outbound ones as empty.
static size_t rounds_held(const struct front *front, unsigned class)
{
	size_t previous = front->previous_rounds[class];

	if (front != words.front)
		return previous + front->loaded_capacity[class] / 2u;
	return previous + front_rounds(front, class);
}

static size_t samples_held(const struct front *front, unsigned class)
{
	return class < SMALL_CLASSES && front->samples[class] != NULL;
}

// Adds what the calling thread has on its way home, to each owner's bytes (0: in slabs, 1: page runs) or, where that is NULL, to the classes' rounds.
// Under the lock, so that nobody empties it meanwhile.
static COLD void count_outbound(size_t bytes[ARENAS_MOST][2], size_t rounds[CLASSES])
{
	for (unsigned class = 1; words.front != NULL && class < CLASSES; class++) {
		const struct outbound *outbound = &words.front->outbound[class];
		size_t count = outbound->top == FRONT_CLOSED ? 0 : (size_t)(outbound->top - outbound->magazine->round);

		for (size_t i = 0; i < count; i++) {
			void *round = outbound->magazine->round[i];
			const struct arena *owner = magazine_is_round(round) ? arena_of_word(page_map_word(round)) : NULL;

			if (owner != NULL && bytes != NULL)
				bytes[owner->id][class >= SLAB_CLASSES] += class_size(class);
			else if (owner != NULL)
				rounds[class]++;
		}
	}
}

void fronts_and_depots_count(size_t rounds[CLASSES])
{
	memset(rounds, 0, CLASSES * sizeof *rounds);
	cpu_fronts_count(rounds);
	mutex_lock(&fronts.lock);
	for (const struct front *front = fronts.first; front != NULL; front = front->next)
		for (unsigned class = 1; class < CLASSES; class++)
			rounds[class] += rounds_held(front, class) + samples_held(front, class);
	count_outbound(NULL, rounds);
	mutex_unlock(&fronts.lock);
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		for (unsigned class = 1; class < CLASSES; class++)
			rounds[class] += atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed);
}

void fronts_cached(size_t bytes[ARENAS_MOST][2])
{
	cpu_fronts_cached(bytes);
	mutex_lock(&fronts.lock);
	for (const struct front *front = fronts.first; front != NULL; front = front->next)
		for (unsigned class = 1; class < CLASSES; class++) {
			bytes[front_arena(front, class)->id][class >= SLAB_CLASSES] += rounds_held(front, class) * class_size(class);
			bytes[front->arena->id][0] += samples_held(front, class) * class_size(class);
		}
	count_outbound(bytes, NULL);
	mutex_unlock(&fronts.lock);
}

void fronts_own_runs(const struct arena *arena, struct own_figures *figures)
{
	memset(figures, 0, sizeof *figures);
	mutex_lock(&fronts.lock);
	for (const struct front *front = fronts.first; front != NULL; front = front->next) {
		if (front->arena != arena)
			continue;
		figures->bytes += front->own_bytes;
		for (unsigned i = 0; i < KEPT_SIZES; i++) {
			uint32_t held = front->own[i].run != NULL, freed = front->own[i].freed; // it may be told, and the slot filled, in between

			figures->allocated[i] += freed - min_size(freed, held);
			figures->freed[i] += freed;
		}
	}
	mutex_unlock(&fronts.lock);
}

struct large_reading fronts_large(const struct arena *arena, const struct own_figures *figures, unsigned class)
{
	struct large_reading counts = large_count_read(&arena->large[class - SLAB_CLASSES]);
	unsigned slot = class - CLASSES;

	if (counts.allocated > 0 && slot < KEPT_SIZES) {
		counts.allocated += figures->allocated[slot];
		counts.freed = min_size(counts.freed + figures->freed[slot], counts.allocated);
	}
	return counts;
}

// False: the door is as wanted, and so are the words, which may be closed in a way of their own (heap/counted.h).
static bool change_door(struct front *front, uint8_t set, uint8_t clear)
{
	uint8_t before = atomic_fetch_or(&front->door_wanted, set);

	atomic_fetch_and(&front->door_wanted, (uint8_t)~clear);
	return ((before | set) & ~clear) != before;
}

static void close_words(struct front *front, uint8_t set, uint8_t clear)
{
	if (!change_door(front, set, clear) || !has_words(front))
		return;
	for (unsigned class = 1; class < CLASSES; class++)
		__atomic_store_n(&front->words->top[class], FRONT_CLOSED, __ATOMIC_RELAXED);
	__atomic_store_n(&front->words->way, 0, __ATOMIC_RELAXED);
}

// Returns whether any was open. What is closed is not written to.
static COLD bool close_words_again(struct front *front)
{
	bool open = __atomic_load_n(&front->words->way, __ATOMIC_RELAXED) != 0;

	for (unsigned class = 1; class < CLASSES; class++) {
		if (front_is_closed(front, class))
			continue;
		open = true;
		__atomic_store_n(&front->words->top[class], FRONT_CLOSED, __ATOMIC_SEQ_CST);
	}
	if (open)
		__atomic_store_n(&front->words->way, 0, __ATOMIC_RELAXED);
	return open;
}

static bool is_late(const struct front *front)
{
	return front != words.front && has_words(front) &&
	       __atomic_load_n(&front->words->door, __ATOMIC_RELAXED) != atomic_load_explicit(&front->door_wanted, memory_order_relaxed);
}

COLD struct late fronts_close_again(void)
{
	struct late late = { 0 };

	mutex_lock(&fronts.lock);
	for (struct front *front = fronts.first; front != NULL; front = front->next)
		if (is_late(front)) {
			late.threads++;
			late.open |= close_words_again(front);
		}
	mutex_unlock(&fronts.lock);
	return late;
}

void front_want_door(struct front *front, uint8_t set)
{
	close_words(front, set, 0);
}

void fronts_close_words(uint8_t set, uint8_t clear)
{
	mutex_lock(&fronts.lock);
	fronts.door = (uint8_t)((fronts.door | set) & ~clear);
	for (struct front *front = fronts.first; front != NULL; front = front->next)
		close_words(front, set, clear);
	mutex_unlock(&fronts.lock);
}

// In lines of their own: every operation reads them, and nobody writes to them while the program runs its course.
__attribute__((aligned(CACHE_LINE))) size_t front_sizes_end;
size_t front_sampled_end, front_short_most, front_delete_end;
__attribute__((aligned(CACHE_LINE))) int32_t front_places[SMALL_MOST + 1];

// Under the lock; the places, which no class has at 0, once.
static COLD void open_sizes(bool open)
{
	for (size_t size = 0; front_places[SMALL_MOST] == 0 && size <= SMALL_MOST; size++)
		front_places[size] = (int32_t)thread_distance(&words.top[size_class_small[size]]);
	__atomic_store_n(&front_sizes_end, open ? SMALL_MOST + (size_t)1 : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&front_sampled_end, open ? 0 : SMALL_MOST + (size_t)1, __ATOMIC_RELEASE);
	__atomic_store_n(&front_short_most, open && fronts.serves_short ? SMALL_MOST : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&front_delete_end, open && !fronts.leaves_delete ? SMALL_MOST + (size_t)1 : 0, __ATOMIC_RELEASE);
}

void fronts_serve_short(void)
{
	mutex_lock(&fronts.lock);
	fronts.serves_short = true;
	open_sizes(!front_sizes_closed());
	mutex_unlock(&fronts.lock);
}

void fronts_leave_delete(void)
{
	mutex_lock(&fronts.lock);
	fronts.leaves_delete = true;
	__atomic_store_n(&front_delete_end, 0, __ATOMIC_RELEASE); // the others as they are: the heap may not be ready
	mutex_unlock(&fronts.lock);
}

COLD void fronts_watch_sizes(void)
{
	mutex_lock(&fronts.lock);
	open_sizes(!atomic_load(&profile_settings.active));
	mutex_unlock(&fronts.lock);
}

COLD void fronts_close_sizes(void)
{
	mutex_lock(&fronts.lock);
	open_sizes(false);
	__atomic_store_n(&front_sampled_end, 0, __ATOMIC_RELEASE);
	mutex_unlock(&fronts.lock);
}

void fronts_draw_points(void)
{
	mutex_lock(&fronts.lock);
	for (struct front *front = fronts.first; front != NULL; front = front->next)
		if (has_words(front))
			profile_redraw(&front->profile, front->words->until);
	mutex_unlock(&fronts.lock);
}

uint8_t fronts_door(void)
{
	return fronts.door;
}

unsigned fronts_live(void)
{
	return fronts.count;
}

bool fronts_lost(void)
{
	return fronts.lost;
}

COLD void fronts_tell(struct vmag_root *root)
{
	root->fronts = (uintptr_t)&fronts.first;
}

struct mutex *fronts_mutex(void)
{
	return &fronts.lock;
}

void fronts_fork_prepare(void)
{
	mutex_fork_lock(&fronts.lock);
}

// In the child the other threads are gone; what their magazines held when the pages were copied cannot be trusted and stays
// unused: at most two magazines a class and thread.
void fronts_fork_done(bool child)
{
	struct front *own = words.front;

	if (child) {
		os_process_begins();
		fronts.lost |= fronts.count > (own != NULL);
		fronts.first = own;
		fronts.behind_found = NULL;
		fronts.count = own != NULL;
		if (own != NULL) {
			own->next = own->prev = NULL;
			own->thread = os_thread_in_process();
			atomic_store(&own->arena->threads, 1);
			atomic_store(&own->common->guests, own->common != own->arena);
			atomic_store(&own->common->front_bytes, 0);
			atomic_store(&own->arena->own_room, 0);
			front_count_again(own);
		}
	}
	mutex_fork_unlock(&fronts.lock);
}
