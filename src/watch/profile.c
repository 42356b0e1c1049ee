// Profile: points on the line of bytes, what a thread knows of its samples, dumps that are due.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "watch/profile.h"

#include <string.h>

#include "base/base.h"
#include "os/clock.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "util/real.h"
#include "vmag/format.h"
#include "watch/black_box.h"
#include "watch/dump.h"
#include "watch/last_stack.h"
#include "watch/sampled_objects.h"
#include "watch/sampled_threads.h"

enum { LG_LATEST = 6 }; // tallies that a thread knows
#define REDRAW (INT64_MIN / 2) // steps to a point: it is to be drawn anew

struct profile_settings profile_settings = {
	.lg_sample = 19, .lg_interval = -1, .thread_active = true, .prefix = "vmag",
};

// What a thread knows, so that most of its samples need no lock: a tally has a thread of its own, so that nobody else counts up in it.
struct profile_known {
	struct latest {
		const struct stack *stack; // NULL: none
		uint64_t size;
		uint32_t tally, resets;
		uint16_t arena;
		uint8_t lg_sample;
	} latest[1 << LG_LATEST];
	struct last_stack *stack;
};
_Static_assert(sizeof(struct profile_known) <= BASE_LARGEST && sizeof(struct last_stack) <= BASE_LARGEST, "memory of base");

static struct {
	_Atomic uint64_t lost;
	_Atomic uint64_t bytes; // allocated, as far as the points tell; counted for dumps by interval
	_Atomic size_t peak;    // of mapped bytes
} profile;

static uint64_t random_next(struct profile_thread *self)
{
	self->random ^= self->random >> 12;
	self->random ^= self->random << 25;
	self->random ^= self->random >> 27;
	return self->random * 0x2545f4914f6cdd1du;
}

// How far it is from one point to the next, in means.
static double draw_distance(struct profile_thread *self)
{
	double even = (double)(int64_t)((random_next(self) >> 11) + 1) * 0x1p-53; // in (0, 1]

	return -real_log(even);
}

// Steps to the next point; 0: the next allocation is hit, as all are with lg_sample 0. The thread's next allocation waits for them, and the logarithm takes
// longer than all else: so the distance is the one that was drawn last time, and the one for the next time may be ready when it likes.
static inline __attribute__((always_inline)) int64_t draw(struct profile_thread *self, unsigned line)
{
	double bytes = self->lg_sample == 0 ? 0 : self->ahead * (double)(int64_t)(1ul << self->lg_sample);

	self->ahead = draw_distance(self);
	return (int64_t)(line == 0 ? bytes : bytes / profile_settings.line_bytes[line]);
}

// At any time, for how far it is to a point does not depend on how far it was.
static void draw_all(struct profile_thread *self, int64_t *until)
{
	atomic_store(&self->drawn, true); // first: who changes the rate takes it back
	self->lg_sample = atomic_load(&profile_settings.lg_sample);
	for (unsigned line = 0; line < PROFILE_LINES; line++)
		until[line] = draw(self, line);
}

static void begin(struct profile_thread *self, int64_t *until)
{
	static _Atomic uint64_t begun;

	self->random = (os_random() << 32 ^ (uintptr_t)self) + atomic_fetch_add(&begun, GOLDEN);
	self->random |= 1;
	self->silent = !profile_settings.thread_active;
	for (int i = 0; i < 8; i++)
		random_next(self);
	self->ahead = draw_distance(self);
	draw_all(self, until);
}

void profile_thread_active(struct profile_thread *self, int64_t until[PROFILE_LINES], bool active)
{
	if (self->random == 0)
		begin(self, until);
	self->silent = !active;
}

// No points were drawn yet, or they are to be drawn anew. Whether one falls into the allocation, an old one or a new one.
static __attribute__((noinline)) bool draw_anew(struct profile_thread *self, int64_t until[PROFILE_LINES], unsigned line, size_t bytes)
{
	bool is_hit = self->random != 0 && until[line] >= REDRAW / 2;

	self->drawn_with = self->lg_sample;
	if (self->random == 0)
		begin(self, until);
	else
		draw_all(self, until);
	if (is_hit)
		return true;
	if (until[line] < 0) // another redraw came amid it
		return false;
	until[line] = profile_steps_left(until[line], line, bytes);
	if (until[line] >= 0)
		return false;
	self->drawn_with = self->lg_sample;
	until[line] = draw(self, line);
	return true;
}

bool profile_draw(struct profile_thread *self, int64_t until[PROFILE_LINES], unsigned line, size_t bytes)
{
	if (UNLIKELY(until[line] < REDRAW / 2 || !atomic_load_explicit(&self->drawn, memory_order_relaxed))) {
		if (!draw_anew(self, until, line, bytes))
			return false;
	} else {
		self->drawn_with = self->lg_sample;
		until[line] = draw(self, line);
	}
	if (profile_settings.lg_interval >= 0)
		atomic_fetch_add_explicit(&profile.bytes, sample_weight(bytes, self->drawn_with), memory_order_relaxed);
	return !self->silent && !self->busy && atomic_load_explicit(&profile_settings.active, memory_order_relaxed);
}

static void own_backtrace(void **frames, unsigned *count, unsigned most)
{
	uintptr_t *to = (uintptr_t *)frames;

	*count = (unsigned)(os_stack_by_system(profile_settings.unwinder) ? os_stack_system(to, most) :
									    last_stack_walk(to, most, profile_settings.unwinder));
}

profile_backtrace *_Atomic profile_backtrace_hook = own_backtrace;
profile_dumped *_Atomic profile_dumped_hook;

static __attribute__((noinline)) struct profile_known *make_known(struct profile_thread *self)
{
	struct profile_known *known = base_alloc(sizeof *known);
	struct last_stack *stack = base_alloc(sizeof *stack);

	if (known != NULL && stack != NULL) {
		memset(known->latest, 0, sizeof known->latest);
		known->stack = stack;
		last_stack_clear(stack, true);
		return self->known = known;
	}
	if (known != NULL)
		base_free(known, sizeof *known);
	if (stack != NULL)
		base_free(stack, sizeof *stack);
	return NULL;
}

void profile_thread_end(struct profile_thread *self)
{
	if (self->known != NULL) {
		base_free(self->known->stack, sizeof *self->known->stack);
		base_free(self->known, sizeof *self->known);
	}
	self->known = NULL;
}

static __attribute__((noinline)) struct stack *ask_for_stack(struct profile_thread *self, profile_backtrace *hook)
{
	uintptr_t frames[STACK_DEPTH];
	unsigned depth = 0;

	self->busy = true; // the system's unwinder may allocate
	hook((void **)frames, &depth, STACK_DEPTH);
	self->busy = false;
	depth = (unsigned)min_size(depth, STACK_DEPTH);
	return stacks_intern(depth, stacks_hash_of(frames, depth), frames);
}

// By our own unwinder unless the program has another one.
static inline struct stack *find_stack(struct profile_thread *self)
{
	profile_backtrace *hook = atomic_load_explicit(&profile_backtrace_hook, memory_order_relaxed);

	if (hook == own_backtrace && !os_stack_by_system(profile_settings.unwinder) && (self->known != NULL || make_known(self) != NULL))
		return last_stack_find(self->known->stack, (uintptr_t)__builtin_frame_address(0), profile_settings.unwinder);
	return ask_for_stack(self, hook);
}

static struct latest *latest_of(const struct profile_thread *self, const struct stack *stack, size_t bytes, unsigned arena)
{
	return &self->known->latest[hash_bits((uintptr_t)stack ^ bytes << 8 ^ arena, LG_LATEST)];
}

// False: what was known of it may hold no more. Counted first and looked then, as a reset, or who makes a black box, is told of first and looks then: so
// nothing is counted in a tally that was found without live objects and may get another meaning.
static bool count_one_more(const struct latest *latest)
{
	struct tally *tally = tally_of(latest->tally);

	atomic_fetch_add(&tally->live, 1);
	if (UNLIKELY(atomic_load(&tally_resets) != latest->resets || atomic_load(&black_box) != NULL)) {
		atomic_fetch_sub(&tally->live, 1);
		return false;
	}
	atomic_store_explicit(&tally->total, atomic_load_explicit(&tally->total, memory_order_relaxed) + 1, memory_order_relaxed);
	return true;
}

static __attribute__((noinline)) uint32_t record(struct profile_thread *self, struct stack *stack, size_t bytes, unsigned arena)
{
	struct tally key = { .size = bytes, .arena = (uint16_t)arena, .stack = stack, .lg_sample = self->drawn_with };
	uint32_t number, resets = atomic_load(&tally_resets);

	if (self->thread == 0)
		profile_name(self, NULL);
	key.thread = self->thread;
	number = tally_count(&key);
	if (number == 0)
		atomic_fetch_add_explicit(&profile.lost, 1, memory_order_relaxed);
	else if (self->known != NULL && key.thread < SAMPLED_THREADS_MOST)
		*latest_of(self, stack, bytes, arena) = (struct latest){ stack, bytes, number, resets, key.arena, key.lg_sample };
	return number;
}

uint32_t profile_record(struct profile_thread *self, size_t bytes, unsigned arena)
{
	struct stack *stack = find_stack(self);
	const struct latest *latest = LIKELY(self->known != NULL) ? latest_of(self, stack, bytes, arena) : NULL;

	if (LIKELY(latest != NULL && latest->stack == stack && latest->size == bytes && latest->arena == arena &&
		   latest->lg_sample == self->drawn_with && count_one_more(latest)))
		return latest->tally;
	return record(self, stack, bytes, arena);
}

uint64_t profile_lost(void)
{
	return atomic_load_explicit(&profile.lost, memory_order_relaxed);
}

void profile_redraw(struct profile_thread *self, int64_t until[PROFILE_LINES])
{
	atomic_store(&self->drawn, false); // and again behind them, for the thread may just have drawn
	for (unsigned line = 0; line < PROFILE_LINES; line++)
		__atomic_store_n(&until[line], REDRAW, __ATOMIC_RELEASE);
	atomic_store(&self->drawn, false);
}

void profile_reset(unsigned lg_sample)
{
	bool waited = dump_begin(); // a dump walks through the tallies

	tallies_forget();
	atomic_store(&profile_settings.lg_sample, (uint8_t)lg_sample);
	if (waited)
		dump_end();
}

void profile_name(struct profile_thread *self, const char *name)
{
	bool first = self->thread == 0;
	char *place;

	if (first)
		self->thread = sampled_thread_number();
	place = sampled_thread_name_place(self->thread);
	if (place == NULL)
		return;
	if (name != NULL)
		strncpy(place, name, THREAD_NAME_BYTES - 1);
	else if (first && profile_settings.system_thread_names && !os_is_shut_in()) {
		os_thread_name(place, THREAD_NAME_BYTES);
		for (char *at = place; *at != '\0'; at++) // a name is part of a line
			if ((unsigned char)*at < ' ')
				*at = '?';
	}
	black_box_name(self->thread, place);
}

const char *profile_name_of(const struct profile_thread *self)
{
	return self->thread == 0 ? "" : sampled_thread_name(self->thread);
}

static __attribute__((noinline)) void look(struct profile_thread *self, size_t mapped)
{
	static _Atomic uint64_t intervals;
	uint64_t bytes = atomic_load_explicit(&profile.bytes, memory_order_relaxed), seen = atomic_load(&intervals);
	size_t peak = atomic_load_explicit(&profile.peak, memory_order_relaxed);

	self->busy = true;
	if (profile_settings.lg_interval >= 0 && bytes >> profile_settings.lg_interval > seen &&
	    atomic_compare_exchange_strong(&intervals, &seen, bytes >> profile_settings.lg_interval))
		dump_named('i');
	if (mapped > peak && atomic_compare_exchange_strong(&profile.peak, &peak, mapped) &&
	    atomic_load_explicit(&profile_settings.gdump, memory_order_relaxed))
		dump_named('u');
	self->busy = false;
}

void profile_look(struct profile_thread *self, size_t mapped)
{
	if (UNLIKELY(profile_settings.lg_interval >= 0 || mapped > atomic_load_explicit(&profile.peak, memory_order_relaxed)))
		look(self, mapped);
}

void profile_tell_box(void)
{
	tallies_tell_box();
	for (uint32_t thread = 1; thread <= sampled_threads_last(); thread++)
		black_box_name(thread, sampled_thread_name(thread));
}

void profile_tell(struct vmag_root *root)
{
	root->profile_active = (uintptr_t)&profile_settings.active;
	root->profile_lg_sample = (uintptr_t)&profile_settings.lg_sample;
	root->profile_lost = (uintptr_t)&profile.lost;
	root->stack_depth = offsetof(struct stack, depth);
	root->stack_frames = offsetof(struct stack, frames);
	tallies_tell(root);
	sampled_threads_tell(root);
	root->sampled_lists = (uintptr_t)sampled_objects_lists_at();
	root->sampled_lists_count = SAMPLED_LISTS;
}

void profile_fork_prepare(void)
{
	sampled_objects_fork_prepare();
	stacks_fork_prepare();
	tallies_fork_prepare();
}

void profile_fork_done(bool child)
{
	tallies_fork_done();
	stacks_fork_done();
	sampled_objects_fork_done();
	if (child)
		dump_fork_child();
}
