// Door: opening and closing, and what happens at each operation while it is closed.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/door.h"

#include <string.h>

#include "conf/options.h"
#include "heap/fronts.h"
#include "heap/interval.h"
#include "heap/loaded.h"
#include "heap/reclaim.h"
#include "magazine/processors.h"
#include "os/clock.h"
#include "watch/trace.h"

enum {
	LOOKS = 16,        // at doors that were closed, 1 ms apart, at most;
	LOOKS_CLOSED = 2,  // in a row that find all words closed are enough
	LOOKS_LATER = 16,  // by who comes by, each
	LOOK_MS = 10,      // after the one before at the earliest
	LEFT_MS = 50,      // sizes closed for so long were left so: by a handler's longjmp, a cancellation, a copy that the C library made nothing of
};

enum { JUNK_ALLOCATED = 0xa5, JUNK_FREED = 0x5a }; // 2006: J

void door_change(struct front *front)
{
	uint8_t before = front->words->door, wanted = atomic_load_explicit(&front->door_wanted, memory_order_relaxed);

	front_enter(front);
	front->words->door = wanted;
	front->words->way = wanted == DOOR_CPU ? (intptr_t)cpu_nowhere : 0;
	if (before == 0 && wanted != 0)
		front_close_words(front);
	else if (before != 0 && wanted == 0)
		front_open_words(front);
	if (wanted != 0)
		front_count_words(front, wanted == DOOR_COUNT);
	front_leave(front);
}

void door_close(enum door why)
{
	struct front *front = front_get();

	if (front == NULL)
		return;
	atomic_fetch_or_explicit(&front->door_wanted, (uint8_t)why, memory_order_relaxed);
	door_obey(front);
}

void door_open(enum door why)
{
	struct front *front = words.front;

	if (front == NULL || (why != DOOR_NOCACHE && (fronts_door() & why) != 0)) // a thread may have its magazines where others have none
		return;
	atomic_fetch_and_explicit(&front->door_wanted, (uint8_t)~why, memory_order_relaxed);
	door_obey(front);
}

bool door_around_hooks(bool before)
{
	if (before && (words.front == NULL || (words.door & DOOR_HOOKS) != 0))
		return false;
	if (before)
		door_close(DOOR_HOOKS);
	else
		door_open(DOOR_HOOKS);
	return before;
}

_Atomic unsigned doors_looks;
static _Atomic uint64_t sizes_closed_at; // ms; 0: they are not

static COLD void open_sizes(void)
{
	fronts_watch_sizes();
	if (!atomic_load(&profile_settings.active))
		fronts_draw_points();
	atomic_store(&sizes_closed_at, 0);
}

// What a thread opens again it may open again and again: an allocation that misses obeys. Between two looks it may run, where another one has
// its processor. What was counted to points of the profile meanwhile was not for it.
static COLD struct late make_obey(void)
{
	_Atomic uint32_t never = 0;
	struct late late = { 0 };

	atomic_store(&sizes_closed_at, os_clock_ms());
	atomic_store(&doors_looks, LOOKS_LATER);
	fronts_close_sizes();
	for (unsigned looks = 0, closed = 0; looks < LOOKS && closed < LOOKS_CLOSED; looks++) {
		os_word_wait(&never, 0, 1);
		late = fronts_close_again();
		if (late.threads == 0)
			break;
		closed = late.open ? 0 : closed + 1;
	}
	open_sizes();
	return late;
}

static COLD void leave_the_rest(void)
{
	atomic_store(&doors_looks, LOOKS_LATER);
	reclaim_wake();
}

static bool sizes_were_left(uint64_t now_ms)
{
	uint64_t since = atomic_load(&sizes_closed_at);

	return UNLIKELY(since != 0) && (int64_t)(now_ms - since) > LEFT_MS;
}

COLD void doors_look_again(uint64_t now_ms)
{
	static _Atomic uint64_t looked_at;
	uint64_t last = looked_at;
	unsigned left = doors_looks;
	struct late late;

	if (now_ms - last < LOOK_MS || !atomic_compare_exchange_strong(&looked_at, &last, now_ms))
		return;
	if (sizes_were_left(now_ms))
		open_sizes();
	late = fronts_close_again();
	if (late.open)
		late = make_obey();
	atomic_store(&doors_looks, late.threads == 0 || left == 0 ? 0 : left - 1);
}

void doors_close(enum door why)
{
	fronts_end_gone();
	fronts_close_words((uint8_t)why, 0);
	if (LIKELY(fronts_live() < 2) || fronts_close_again().threads == 0)
		return;
	if (make_obey().threads > 0)
		leave_the_rest();
	else
		atomic_store(&doors_looks, 0);
}

void doors_open(enum door why)
{
	fronts_end_gone();
	fronts_close_words(0, (uint8_t)why);
}

// From `old_size` on.
static void fill_allocated(void *object, size_t old_size, size_t size)
{
	if (size <= old_size)
		return;
	if (options.zero)
		memset((char *)object + old_size, 0, size - old_size);
	else if (options.junk & JUNK_ALLOC)
		memset((char *)object + old_size, JUNK_ALLOCATED, size - old_size);
}

// `allocated − freed` may have sunk below where the peak began.
static void note_peak(struct front *front)
{
	int64_t net = (int64_t)(front->allocated - front->freed - front->peak_base);

	if (net > (int64_t)front->peak)
		front->peak = (uint64_t)net;
}

// An allocation may have counted the word down while it was being closed, or another thread was late to close it.
static void count_again(struct front *front, size_t size)
{
	unsigned class = size_class(size);

	if (class < CLASSES)
		front_count_word(front, class);
}

static inline __attribute__((always_inline)) void trace_new(struct front *front, const void *object, size_t size)
{
	if (UNLIKELY(front->starts))
		trace_leave_out(object);
	else
		trace_allocated(&front->tracer, object, size);
}

void door_allocated(struct front *front, void *object, size_t size)
{
	if (front->words->door & DOOR_COUNT)
		front->allocated += size;
	if (front->words->door == DOOR_COUNT)
		count_again(front, size);
	if (front->words->door & DOOR_PEAK)
		note_peak(front);
	if (front->words->door & DOOR_TRACE)
		trace_new(front, object, size);
	if (front->words->door & DOOR_FILL)
		fill_allocated(object, 0, size);
	interval_look(front);
}

void door_freeing(struct front *front, void *object, size_t size)
{
	if (front->words->door & DOOR_COUNT)
		front->freed += size;
	if (front->words->door & DOOR_TRACE)
		trace_freed(&front->tracer, object);
	if (front->words->door & DOOR_FILL && options.junk & JUNK_FREE)
		memset(object, JUNK_FREED, size);
}

void door_resized(struct front *front, void *object, size_t old_size, size_t size, bool is_moved)
{
	if (front->words->door & DOOR_COUNT) {
		front->freed += old_size;
		front->allocated += size;
	}
	if (front->words->door & DOOR_PEAK)
		note_peak(front);
	if (front->words->door & DOOR_TRACE)
		(is_moved ? trace_allocated : trace_resized)(&front->tracer, object, size);
	if (front->words->door & DOOR_FILL)
		fill_allocated(object, old_size, size);
}
