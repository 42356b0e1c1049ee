// Event trace: encoding events in the buffers of threads.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/trace.h"

#include <string.h>

#include "base/base.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/stack.h"
#include "os/thread.h"
#include "vmag/trace_format.h"
#include "watch/known_stacks.h"
#include "watch/profile.h"
#include "watch/trace_facts.h"
#include "watch/trace_file.h"
#include "watch/trace_stacks.h"

enum { EVENT_MOST = 64, SECONDS_MOST = 1000000000 /* as the option */ };

// A chunk under way. The thread writes events and then `used`; who stops the trace reads it from another thread.
struct tracer {
	struct tracer *next, *next_unused; // of all, and of those that no thread has; under lock
	bool unwinding;      // what the system's unwinder allocates has no stack
	uint32_t generation; // the trace that the chunk belongs to; 0: none yet
	uint64_t ticks;      // of the last event
	uintptr_t address;   // of the last event of malloc
	uintptr_t place;     // of the last other one
	uint32_t events;
	struct known_stacks stacks;
	_Atomic uint32_t used;
	struct vmag_trace_chunk head;
	uint8_t payload[VMAG_TRACE_CHUNK - sizeof(struct vmag_trace_chunk)];
};

_Static_assert(offsetof(struct tracer, payload) == offsetof(struct tracer, head) + sizeof(struct vmag_trace_chunk),
	       "head and payload are written at once");

_Atomic uint32_t trace_generation;
static _Atomic uintptr_t left_out; // 0: none

static struct {
	struct mutex lock;
	// Under lock.
	struct tracer *all, *unused;
	uint32_t generations;
	// Constant while a trace is on.
	bool stacks, ring;
	uint64_t until_ns; // 0: no limit of time
} trace = { .lock = MUTEX_INIT(RANK_TRACE) };

static void begin_chunk(struct tracer *tracer, uint32_t generation)
{
	tracer->head.ticks_first = tracer->ticks = os_ticks();
	tracer->head.ns_first = os_clock_ns();
	tracer->head.kind = trace.stacks ? VMAG_TRACE_EVENTS_STACKS : VMAG_TRACE_EVENTS;
	tracer->address = tracer->place = 0;
	tracer->events = 0;
	tracer->generation = generation;
	atomic_store_explicit(&tracer->used, 0, memory_order_release);
}

static bool is_over(void)
{
	return UNLIKELY(trace.until_ns != 0) && os_clock_ns() >= trace.until_ns;
}

static void end(uint32_t generation)
{
	atomic_compare_exchange_strong(&trace_generation, &generation, 0);
}

// The chunk ends with its last event, whose time is found on the line from the beginning to now.
static void close_chunk(struct tracer *tracer)
{
	struct vmag_trace_chunk *head = &tracer->head;
	double ticks = (double)(os_ticks() - head->ticks_first), ns = (double)(os_clock_ns() - head->ns_first);

	head->ticks_last = tracer->ticks;
	head->ns_last = head->ns_first + (uint64_t)(ticks > 0 ? (double)(tracer->ticks - head->ticks_first) / ticks * ns : 0);
}

// The trace ends when there is no place for the chunk, or its time is over. Once it is off, a chunk is left to who stops it (`last`).
static void write_chunk(struct tracer *tracer, uint32_t generation, bool last)
{
	uint32_t used = atomic_load_explicit(&tracer->used, memory_order_acquire);
	bool is_on = true;
	uint64_t entered;

	if (tracer->generation != generation || used == 0)
		return;
	entered = trace_file_enter();
	if (last || atomic_load(&trace_generation) == generation) {
		tracer->head.bytes = used;
		tracer->head.events = tracer->events;
		close_chunk(tracer);
		is_on = trace_file_write(&tracer->head, entered) && !is_over();
		atomic_store_explicit(&tracer->used, 0, memory_order_release);
	}
	if (trace_file_leave(entered) && !is_on)
		end(generation);
}

// NULL also when that trace is off: threads that ended since then left their chunks to who stops it.
static struct tracer *tracer_take(uint32_t generation)
{
	struct tracer *tracer;
	bool is_on;

	mutex_lock(&trace.lock);
	is_on = atomic_load(&trace_generation) == generation;
	tracer = is_on ? trace.unused : NULL;
	if (tracer != NULL)
		trace.unused = tracer->next_unused;
	mutex_unlock(&trace.lock);
	if (tracer != NULL || !is_on)
		return tracer;
	tracer = base_alloc_pages(sizeof *tracer);
	if (tracer == NULL)
		return NULL;
	mutex_lock(&trace.lock);
	tracer->next = trace.all;
	trace.all = tracer;
	mutex_unlock(&trace.lock);
	return tracer;
}

// Under lock.
static void leave_unused(struct tracer *tracer)
{
	tracer->next_unused = trace.unused;
	trace.unused = tracer;
}

static __attribute__((noinline)) struct tracer *make_ready(struct tracer **own, uint32_t generation)
{
	struct tracer *tracer = *own;

	if (tracer == NULL) {
		tracer = tracer_take(generation);
		if (tracer == NULL)
			return NULL;
		tracer->head.thread = (uint32_t)os_thread_number();
		tracer->generation = 0;
		known_stacks_clear(&tracer->stacks); // another thread may have had it
		*own = tracer;
	} else {
		write_chunk(tracer, generation, false);
		if (atomic_load(&trace_generation) != generation) // who stops it may be at the chunk
			return NULL;
		if (tracer->generation != generation) // whose file knows no stacks yet
			known_stacks_clear(&tracer->stacks);
	}
	begin_chunk(tracer, generation);
	return tracer;
}

// Room for an event in this thread's chunk; NULL: there is no trace, or it has just ended, or no memory.
static inline struct tracer *ready(struct tracer **own)
{
	uint32_t generation = atomic_load_explicit(&trace_generation, memory_order_relaxed);
	struct tracer *tracer = *own;

	if (UNLIKELY(generation == 0))
		return NULL;
	if (UNLIKELY(tracer == NULL || tracer->generation != generation ||
		     atomic_load_explicit(&tracer->used, memory_order_relaxed) > sizeof tracer->payload - EVENT_MOST))
		return make_ready(own, generation);
	return tracer;
}

static uint32_t number_of(const uintptr_t *frames, size_t depth)
{
	struct stack *stack = stacks_intern(depth, stacks_hash_of(frames, depth), NULL);
	uint32_t number = trace_stacks_number(stack);

	return number != 0 || stack->depth == 0 ? number : trace_stacks_tell(stack, frames);
}

// What the system's unwinder allocates is told meanwhile, without stacks.
static __attribute__((noinline)) uint32_t number_by_system(struct tracer *tracer)
{
	uintptr_t frames[STACK_DEPTH];
	size_t depth;

	if (tracer->unwinding)
		return 0;
	tracer->unwinding = true;
	depth = os_stack_system(frames, STACK_DEPTH);
	tracer->unwinding = false;
	return number_of(frames, depth);
}

// As a rule the stack was just walked, for it is the first event that has it. A handler may have found another one since.
static __attribute__((noinline)) uint32_t tell(const struct tracer *tracer, struct stack *stack)
{
	uintptr_t frames[STACK_DEPTH];

	if (stack->depth == 0)
		return 0;
	if (LIKELY(last_stack_frames(&tracer->stacks.last, stack, frames)))
		return trace_stacks_tell(stack, frames);
	return number_of(frames, last_stack_walk(frames, STACK_DEPTH, profile_settings.unwinder));
}

static inline uint32_t stack_number(struct tracer *tracer, uintptr_t frame)
{
	struct known found;
	uint32_t number;

	if (UNLIKELY(os_stack_by_system(profile_settings.unwinder)))
		return number_by_system(tracer);
	found = known_stacks_find(&tracer->stacks, frame, profile_settings.unwinder);
	number = found.number != 0 ? found.number : trace_stacks_number(found.stack);
	return LIKELY(number != 0) ? number : tell(tracer, found.stack);
}

static inline uint64_t zigzag(int64_t step)
{
	return (uint64_t)step << 1 ^ (uint64_t)(step >> 63);
}

static inline uint8_t *end_of(struct tracer *tracer)
{
	return tracer->payload + atomic_load_explicit(&tracer->used, memory_order_relaxed);
}

static inline void event_done(struct tracer *tracer, const uint8_t *at)
{
	tracer->events++;
	atomic_store_explicit(&tracer->used, (uint32_t)(at - tracer->payload), memory_order_release);
}

// Any event: its kind and its fields as varints; `step` as it is written. Processors' ticks may disagree by a little. It is
// here that who rarely allocates notices that the time is over.
static __attribute__((noinline)) uint8_t *add_long(struct tracer *tracer, unsigned kind, uint64_t ticks, uint64_t step)
{
	uint8_t *at = end_of(tracer);
	uint64_t passed = (int64_t)(ticks - tracer->ticks) > 0 ? ticks - tracer->ticks : 0;

	if (is_over())
		end(tracer->generation);
	tracer->ticks += passed;
	*at++ = (uint8_t)kind;
	return add_varint(add_varint(at, passed), step);
}

static inline uint64_t step_to(struct tracer *tracer, const void *object)
{
	uint64_t step = zigzag((int64_t)((uintptr_t)object - tracer->address) >> 3);

	tracer->address = (uintptr_t)object;
	return step;
}

static inline bool is_short(uint64_t passed, uint64_t step, unsigned step_bits, size_t size)
{
	return LIKELY((passed >> VMAG_TRACE_TICKS_BITS | step >> step_bits | size >> (VMAG_TRACE_SIZE_BITS + 3) | (size & 7)) == 0);
}

static inline uint64_t short_sized(unsigned kind, uint64_t passed, uint64_t step, size_t size)
{
	return kind | VMAG_TRACE_SHORT | passed << VMAG_TRACE_TICKS_AT | step << VMAG_TRACE_STEP_AT | (uint64_t)size >> 3 << VMAG_TRACE_SIZE_AT;
}

// Eight bytes are written, those of the event are kept.
static inline void add_short(struct tracer *tracer, uint64_t ticks, uint64_t event, size_t bytes)
{
	uint8_t *at = end_of(tracer);

	tracer->ticks = ticks;
	memcpy(at, &event, sizeof event);
	event_done(tracer, at + bytes);
}

// The same, and the number of the stack behind it.
static inline void add_short_with_stack(struct tracer *tracer, uint64_t ticks, uint64_t event, uint32_t stack)
{
	uint8_t *at = end_of(tracer);

	tracer->ticks = ticks;
	event |= (uint64_t)stack << 8 * VMAG_TRACE_SHORT_SIZED;
	memcpy(at, &event, sizeof event);
	at += LIKELY(stack < 0x80) ? sizeof event : (size_t)(add_varint(at + VMAG_TRACE_SHORT_SIZED, stack) - at);
	event_done(tracer, at);
}

static inline void sized_event(struct tracer *tracer, unsigned kind, const void *object, size_t size)
{
	uint64_t ticks = os_ticks(), passed = ticks - tracer->ticks, step = step_to(tracer, object);

	if (is_short(passed, step, VMAG_TRACE_STEP_BITS, size))
		add_short(tracer, ticks, short_sized(kind, passed, step, size), VMAG_TRACE_SHORT_SIZED);
	else
		event_done(tracer, add_varint(add_long(tracer, kind, ticks, step), size));
}

static inline void sized_event_with_stack(struct tracer *tracer, unsigned kind, const void *object, size_t size, uint32_t stack)
{
	uint64_t ticks = os_ticks(), passed = ticks - tracer->ticks, step = step_to(tracer, object);

	if (is_short(passed, step, VMAG_TRACE_STEP_BITS, size))
		add_short_with_stack(tracer, ticks, short_sized(kind, passed, step, size), stack);
	else
		event_done(tracer, add_varint(add_varint(add_long(tracer, kind, ticks, step), size), stack));
}

// The stack comes before all else: while the system's unwinder finds it, others of this thread's allocations may be told. If another trace began meanwhile, the
// number is not of its file.
static __attribute__((noinline)) void sized_event_with_its_stack(struct tracer **own, unsigned kind, const void *object, size_t size)
{
	struct tracer *tracer = *own;
	uint32_t generation = tracer->generation, stack = stack_number(tracer, (uintptr_t)__builtin_frame_address(0));

	tracer = ready(own);
	if (tracer != NULL && tracer->head.kind == VMAG_TRACE_EVENTS_STACKS)
		sized_event_with_stack(tracer, kind, object, size, LIKELY(tracer->generation == generation) ? stack : 0);
}

// Where another object came to lie it was freed while nobody looked.
static inline bool is_left_out(const void *object)
{
	if (LIKELY((uintptr_t)object != atomic_load_explicit(&left_out, memory_order_relaxed)))
		return false;
	atomic_store_explicit(&left_out, 0, memory_order_relaxed);
	return true;
}

COLD void trace_leave_out(const void *object)
{
	atomic_store_explicit(&left_out, (uintptr_t)object, memory_order_relaxed);
}

static inline __attribute__((always_inline)) void sized_event_of(struct tracer **own, unsigned kind, const void *object, size_t size)
{
	struct tracer *tracer = ready(own);

	if (UNLIKELY(tracer == NULL))
		return;
	if (UNLIKELY(tracer->head.kind == VMAG_TRACE_EVENTS_STACKS))
		sized_event_with_its_stack(own, kind, object, size);
	else
		sized_event(tracer, kind, object, size);
}

void trace_allocated(struct tracer **own, const void *object, size_t size)
{
	is_left_out(object);
	sized_event_of(own, VMAG_TRACE_ALLOC, object, size);
}

void trace_resized(struct tracer **own, const void *object, size_t size)
{
	sized_event_of(own, VMAG_TRACE_RESIZE, object, size);
}

void trace_freed(struct tracer **own, const void *object)
{
	struct tracer *tracer = ready(own);
	uint64_t ticks, passed, step;

	if (UNLIKELY(is_left_out(object) || tracer == NULL))
		return;
	ticks = os_ticks();
	passed = ticks - tracer->ticks;
	step = step_to(tracer, object);
	if (is_short(passed, step, VMAG_TRACE_FREE_STEP_BITS, 0))
		add_short(tracer, ticks, VMAG_TRACE_FREE | VMAG_TRACE_SHORT | passed << VMAG_TRACE_TICKS_AT | step << VMAG_TRACE_STEP_AT,
			  VMAG_TRACE_SHORT_FREE);
	else
		event_done(tracer, add_long(tracer, VMAG_TRACE_FREE, ticks, step));
}

void trace_other(struct tracer **own, unsigned what, const struct trace_source *source, uintptr_t start, size_t size)
{
	bool has_stack = trace.stacks && (what == VMAG_TRACE_CACHE_ALLOC || what == VMAG_TRACE_ARENA_ALLOC || what == VMAG_TRACE_PLACES_ALLOC);
	struct tracer *tracer = ready(own);
	uint32_t generation = tracer == NULL ? 0 : tracer->generation;
	uint32_t stack = tracer == NULL || !has_stack ? 0 : stack_number(tracer, (uintptr_t)__builtin_frame_address(0));
	uint8_t *at;

	if (tracer != NULL && !trace.ring) // there names would push out stacks, which are told once
		trace_stacks_name(source);
	tracer = ready(own);
	if (tracer == NULL)
		return;
	if (UNLIKELY(tracer->generation != generation))
		stack = 0;
	at = add_long(tracer, VMAG_TRACE_OTHER, os_ticks(), zigzag((int64_t)(start - tracer->place)));
	tracer->place = start;
	at = add_varint(at, size);
	*at++ = (uint8_t)what;
	at = add_varint(at, source->number);
	if (has_stack && tracer->head.kind == VMAG_TRACE_EVENTS_STACKS)
		at = add_varint(at, stack);
	event_done(tracer, at);
}

COLD void trace_thread_end(struct tracer **own)
{
	struct tracer *tracer = *own;
	uint32_t generation = atomic_load(&trace_generation);

	if (tracer == NULL)
		return;
	*own = NULL;
	if (generation != 0)
		write_chunk(tracer, generation, false);
	mutex_lock(&trace.lock);
	leave_unused(tracer); // what it has of a trace that is just off is for who stops that
	mutex_unlock(&trace.lock);
}

bool trace_start(const struct trace_wish *wish)
{
	uint32_t generation = 0, next;

	if (trace_is_on() || !trace_file_begin(wish))
		return false;
	mutex_lock(&trace.lock);
	trace.stacks = wish->stacks;
	trace.ring = wish->ring;
	trace.until_ns = wish->most_seconds == 0 ? 0 : os_clock_ns() + min_size(wish->most_seconds, SECONDS_MOST) * 1000000000u;
	trace.generations += trace.generations == UINT32_MAX ? 2 : 1; // never 0
	next = trace.generations;
	atomic_store(&left_out, 0);
	mutex_unlock(&trace.lock);
	return atomic_compare_exchange_strong(&trace_generation, &generation, next);
}

// Tracers are never freed, so the list may be walked without the lock, which is not to be held across a write.
void trace_stop(bool at_exit)
{
	uint32_t generation;
	struct tracer *first;
	unsigned how;

	mutex_lock(&trace.lock);
	first = trace.all;
	generation = trace.generations;
	mutex_unlock(&trace.lock);
	atomic_store(&trace_generation, 0);
	how = is_over() ? VMAG_TRACE_OUT_OF_TIME : at_exit ? VMAG_TRACE_EXITED : VMAG_TRACE_STOPPED;
	trace_file_settle();
	for (struct tracer *tracer = first; tracer != NULL; tracer = tracer->next)
		write_chunk(tracer, generation, true);
	trace_file_end(how);
}

void trace_fork_prepare(void)
{
	mutex_fork_lock(&trace.lock);
	trace_stacks_fork_prepare();
}

void trace_fork_done(bool child, struct tracer *own)
{
	trace_stacks_fork_done();
	mutex_fork_unlock(&trace.lock);
	if (!child)
		return;
	trace.unused = NULL;
	for (struct tracer *tracer = trace.all; tracer != NULL; tracer = tracer->next) {
		if (tracer != own)
			leave_unused(tracer);
		tracer->generation = 0;
	}
	if (own != NULL)
		own->head.thread = (uint32_t)os_thread_number();
	trace_file_fork_child();
}
