// Profile: points on the line of bytes, tallies, threads and their names.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "watch/profile.h"

#include <string.h>

#include "base/base.h"
#include "cache/table.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "os/thread.h"
#include "util/assert.h"
#include "util/real.h"
#include "vmag/format.h"
#include "watch/black_box.h"
#include "watch/dump.h"
#include "watch/last_stack.h"
#include "watch/sampled_objects.h"

enum {
	LG_BLOCK = 7,      // tallies a block, so that one is BASE_LARGEST bytes
	BLOCKS = 4096,     // of tallies
	LG_LISTS = 13,     // of tallies by hash
	LG_LATEST = 6,     // tallies that a thread knows
	NAME_BLOCK = BASE_LARGEST / PROFILE_NAME_BYTES,
	NAME_BLOCKS = 256, // threads beyond share one number
	THREADS_MOST = NAME_BLOCK * NAME_BLOCKS - 1,
};

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
	struct last_stack stack;
};
_Static_assert(sizeof(struct profile_known) <= BASE_LARGEST, "memory of base");

static struct {
	struct mutex lock;
	// Under lock.
	uint32_t lists[1 << LG_LISTS]; // numbers of tallies by hash
	uint32_t unused;               // numbers of forgotten tallies without live objects
	// Written under lock, read by anyone.
	struct tally *_Atomic blocks[BLOCKS];
	_Atomic uint32_t count;
	char (*_Atomic names[NAME_BLOCKS])[PROFILE_NAME_BYTES];
	_Atomic uint32_t threads;
	// Atomic.
	_Atomic uint32_t resets;
	_Atomic uint64_t lost;
	_Atomic uint64_t bytes; // allocated, as far as the points tell; counted for dumps by interval
	_Atomic size_t peak;    // of mapped bytes
} profile = { .lock = MUTEX_INIT(RANK_PROFILE) };

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
static int64_t draw(struct profile_thread *self, unsigned line)
{
	double bytes = self->lg_sample == 0 ? 0 : self->ahead * (double)(int64_t)(1ul << self->lg_sample);

	self->ahead = draw_distance(self);
	return (int64_t)(line == 0 ? bytes : bytes / profile_settings.line_bytes[line]);
}

// At any time, for how far it is to a point does not depend on how far it was.
static void draw_all(struct profile_thread *self, int64_t *until)
{
	self->lg_sample = atomic_load_explicit(&profile_settings.lg_sample, memory_order_relaxed);
	for (unsigned line = 0; line < PROFILE_LINES; line++)
		until[line] = draw(self, line);
}

static void begin(struct profile_thread *self, int64_t *until)
{
	static _Atomic uint64_t begun;

	self->random = (os_random() << 32 ^ (uintptr_t)self) + atomic_fetch_add(&begun, 0x9e3779b97f4a7c15u);
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

static uint64_t weighted_bytes(uint64_t bytes, unsigned lg_sample)
{
	double size = (double)bytes;

	return lg_sample == 0 ? bytes : (uint64_t)(size / real_one_minus_exp(size / (double)(1ul << lg_sample)) + 0.5);
}

bool profile_draw(struct profile_thread *self, int64_t until[PROFILE_LINES], unsigned line, size_t bytes)
{
	if (self->random == 0) {
		begin(self, until);
		until[line] -= line == 0 ? (int64_t)bytes : 1;
		if (until[line] >= 0)
			return false;
	}
	if (profile_settings.lg_interval >= 0)
		atomic_fetch_add_explicit(&profile.bytes, weighted_bytes(bytes, self->lg_sample), memory_order_relaxed);
	self->drawn_with = self->lg_sample;
	if (self->lg_sample != atomic_load_explicit(&profile_settings.lg_sample, memory_order_relaxed))
		draw_all(self, until);
	else
		until[line] = draw(self, line);
	return !self->silent && !self->busy && atomic_load_explicit(&profile_settings.active, memory_order_relaxed);
}

struct tally *profile_tally(uint32_t number)
{
	struct tally *block = atomic_load_explicit(&profile.blocks[(number - 1) >> LG_BLOCK], memory_order_acquire);

	return &block[(number - 1) % (1 << LG_BLOCK)];
}

uint32_t profile_tallies(void)
{
	return atomic_load_explicit(&profile.count, memory_order_acquire);
}

// A stack's tallies of one thread are in one list.
static size_t hash_of(const struct tally *key)
{
	return (size_t)((key->stack->hash ^ (uint64_t)key->thread << 24) * 0xff51afd7ed558ccdu >> (64 - LG_LISTS));
}

// 0: there is none. `neighbour`: one of the same stack and thread, or 0.
static uint32_t find(const struct tally *key, uint32_t *neighbour)
{
	uint32_t number = profile.lists[hash_of(key)];

	for (*neighbour = 0; number != 0; number = profile_tally(number)->next) {
		const struct tally *tally = profile_tally(number);

		if (tally->stack != key->stack || tally->thread != key->thread)
			continue;
		if (tally->size == key->size && tally->arena == key->arena && tally->lg_sample == key->lg_sample)
			break;
		*neighbour = number;
	}
	return number;
}

// So that writers meet a thread's tallies one after the other.
static void link_to_stack(struct tally *tally, uint32_t number, uint32_t neighbour)
{
	_Atomic uint32_t *at = neighbour != 0 ? &profile_tally(neighbour)->next_of_stack : &tally->stack->first_tally;

	tally->next_of_stack = *at;
	*at = number;
}

// A number that is free; 0: the block for it is missing.
static uint32_t take_number(void)
{
	uint32_t number = profile.unused;

	if (number != 0) {
		profile.unused = profile_tally(number)->next;
		return number;
	}
	number = profile.count + 1;
	if (number > BLOCKS << LG_BLOCK || profile.blocks[(number - 1) >> LG_BLOCK] == NULL)
		return 0;
	return number;
}

static void tell_cache(unsigned id)
{
	struct vmag_cache *cache = cache_pin(id);

	if (cache == NULL)
		return;
	black_box_cache(id, cache->name);
	cache_unpin(cache);
}

// Under the lock.
static void tell_box(uint32_t number, uint64_t live, uint64_t total)
{
	const struct tally *tally = profile_tally(number);

	if (atomic_load_explicit(&black_box, memory_order_relaxed) == NULL)
		return;
	if (tally->arena >= VMAG_ARENA_CACHES)
		tell_cache(tally->arena - VMAG_ARENA_CACHES);
	black_box_add(number, tally->stack, &(struct vmag_box_tally){
		.size = tally->size, .thread = tally->thread, .arena = tally->arena, .lg_sample = tally->lg_sample,
		.live = live, .total = total,
	});
}

static void count_in_box(uint32_t number, int live, int total)
{
	if (atomic_load_explicit(&black_box, memory_order_relaxed) != NULL)
		black_box_count(number, live, total);
}

// Under the lock, which others change `total` under, too.
static void count(uint32_t number, int by)
{
	struct tally *tally = profile_tally(number);
	uint64_t total = atomic_load_explicit(&tally->total, memory_order_relaxed);

	// Who sees either sees all else of it, too.
	atomic_fetch_add_explicit(&tally->live, (uint64_t)(int64_t)by, memory_order_release);
	atomic_store_explicit(&tally->total, total + (uint64_t)(int64_t)by, memory_order_release);
	count_in_box(number, by, by);
}

static uint32_t insert(const struct tally *key, uint32_t neighbour)
{
	uint32_t number = take_number(), *list;
	struct tally *tally;

	if (number == 0)
		return 0;
	tally = profile_tally(number);
	list = &profile.lists[hash_of(key)];
	tally->stack = key->stack;
	tally->size = key->size;
	tally->thread = key->thread;
	tally->arena = key->arena;
	tally->lg_sample = key->lg_sample;
	atomic_store_explicit(&tally->total, 0, memory_order_relaxed); // the last sample of its former meaning may have come behind a reset
	tally->retired = false;
	tally->weighted = weighted_bytes(key->size, key->lg_sample);
	tally->next = *list;
	*list = number;
	link_to_stack(tally, number, neighbour);
	tell_box(number, 0, 0);
	if (number > profile.count)
		atomic_store_explicit(&profile.count, number, memory_order_release);
	return number;
}

// Memory for further tallies, got without the lock. False: there is none. Others may have used it up when we come to it.
static bool make_room(void)
{
	uint32_t block = profile_tallies() >> LG_BLOCK;
	struct tally *fresh = block < BLOCKS && profile.blocks[block] == NULL ? base_alloc(BASE_LARGEST) : NULL;
	bool made;

	if (fresh != NULL)
		memset(fresh, 0, BASE_LARGEST);
	mutex_lock(&profile.lock);
	if (fresh != NULL && profile.blocks[block] == NULL) {
		atomic_store_explicit(&profile.blocks[block], fresh, memory_order_release);
		fresh = NULL;
	}
	made = block < BLOCKS && profile.blocks[block] != NULL;
	mutex_unlock(&profile.lock);
	if (fresh != NULL)
		base_free(fresh, BASE_LARGEST);
	return made;
}

static uint32_t count_one(const struct tally *key)
{
	uint32_t number, neighbour;

	mutex_lock(&profile.lock);
	number = find(key, &neighbour);
	if (number == 0)
		number = insert(key, neighbour);
	if (number != 0)
		count(number, 1);
	mutex_unlock(&profile.lock);
	return number;
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
	self->known = base_alloc(sizeof *self->known);
	if (self->known == NULL)
		return NULL;
	memset(self->known->latest, 0, sizeof self->known->latest);
	last_stack_clear(&self->known->stack);
	return self->known;
}

void profile_thread_end(struct profile_thread *self)
{
	if (self->known != NULL)
		base_free(self->known, sizeof *self->known);
	self->known = NULL;
}

static __attribute__((noinline)) struct stack *ask_for_stack(struct profile_thread *self, profile_backtrace *hook)
{
	uintptr_t frames[STACK_DEPTH];
	unsigned depth = 0;

	self->busy = true; // the system's unwinder may allocate
	hook((void **)frames, &depth, STACK_DEPTH);
	self->busy = false;
	return stacks_intern(frames, min_size(depth, STACK_DEPTH));
}

// By our own unwinder unless the program has another one.
static inline struct stack *find_stack(struct profile_thread *self)
{
	profile_backtrace *hook = atomic_load_explicit(&profile_backtrace_hook, memory_order_relaxed);

	if (hook == own_backtrace && !os_stack_by_system(profile_settings.unwinder) && (self->known != NULL || make_known(self) != NULL))
		return last_stack_find(&self->known->stack, (uintptr_t)__builtin_frame_address(0), profile_settings.unwinder);
	return ask_for_stack(self, hook);
}

static struct latest *latest_of(const struct profile_thread *self, const struct stack *stack, size_t bytes, unsigned arena)
{
	uint64_t hash = ((uintptr_t)stack ^ bytes << 8 ^ arena) * 0x9e3779b97f4a7c15u;

	return &self->known->latest[hash >> (64 - LG_LATEST)];
}

// False: what was known of it may hold no more. Counted first and looked then, as a reset, or who makes a black box, is told of first and looks then: so
// nothing is counted in a tally that was found without live objects and may get another meaning.
static bool count_one_more(const struct latest *latest)
{
	struct tally *tally = profile_tally(latest->tally);

	atomic_fetch_add(&tally->live, 1);
	if (UNLIKELY(atomic_load(&profile.resets) != latest->resets || atomic_load(&black_box) != NULL)) {
		atomic_fetch_sub(&tally->live, 1);
		return false;
	}
	atomic_store_explicit(&tally->total, atomic_load_explicit(&tally->total, memory_order_relaxed) + 1, memory_order_relaxed);
	return true;
}

static __attribute__((noinline)) uint32_t record(struct profile_thread *self, struct stack *stack, size_t bytes, unsigned arena)
{
	struct tally key = { .size = bytes, .arena = (uint16_t)arena, .stack = stack, .lg_sample = self->drawn_with };
	uint32_t number, resets = atomic_load(&profile.resets);

	if (self->thread == 0)
		profile_name(self, NULL);
	key.thread = self->thread;
	do
		number = count_one(&key);
	while (number == 0 && make_room());
	if (number == 0)
		atomic_fetch_add_explicit(&profile.lost, 1, memory_order_relaxed);
	else if (self->known != NULL && key.thread < THREADS_MOST)
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

void profile_freed(uint32_t tally)
{
	atomic_fetch_add_explicit(&profile_tally(tally)->live, (uint64_t)-1, memory_order_release);
	count_in_box(tally, -1, 0);
}

void profile_cancel(uint32_t tally)
{
	mutex_lock(&profile.lock);
	count(tally, -1);
	mutex_unlock(&profile.lock);
}

uint64_t profile_lost(void)
{
	return atomic_load_explicit(&profile.lost, memory_order_relaxed);
}

// Tallies that objects still name are kept, retired, until another reset finds them without.
static void retire(uint32_t number)
{
	struct tally *tally = profile_tally(number);

	tally->retired = true;
	black_box_forget(number);
	atomic_store_explicit(&tally->total, 0, memory_order_relaxed);
	if (atomic_load(&tally->live) != 0)
		return;
	tally->next = profile.unused;
	profile.unused = number;
}

void profile_reset(unsigned lg_sample)
{
	bool waited = dump_begin(); // a dump walks through the tallies

	mutex_lock(&profile.lock);
	atomic_fetch_add(&profile.resets, 1);
	profile.unused = 0;
	if (profile.count != 0) // or all are 0, on pages that were never touched
		memset(profile.lists, 0, sizeof profile.lists);
	for (struct stack *stack = stacks_newest(); stack != NULL; stack = stack->older)
		stack->first_tally = 0;
	for (uint32_t number = 1; number <= profile.count; number++)
		retire(number);
	atomic_store(&profile_settings.lg_sample, (uint8_t)lg_sample);
	mutex_unlock(&profile.lock);
	if (waited)
		dump_end();
}

uint64_t profile_weighted_bytes(uint32_t tally, size_t bytes)
{
	return tally == 0 ? bytes : profile_tally(tally)->weighted;
}

bool tally_is_told(const struct tally *tally)
{
	return (atomic_load_explicit(&tally->live, memory_order_acquire) | atomic_load_explicit(&tally->total, memory_order_acquire)) != 0;
}

static void estimate_add_told(struct estimate *sum, const struct tally *tally)
{
	double rate = (double)(1ul << tally->lg_sample), size = (double)tally->size;
	double p = tally->lg_sample == 0 ? 1 : real_one_minus_exp(size / rate);
	double live = (double)atomic_load_explicit(&tally->live, memory_order_relaxed) / p;
	double total = (double)atomic_load_explicit(&tally->total, memory_order_relaxed) / p;

	if (tally->retired)
		return;
	sum->live_objects += live;
	sum->live_bytes += live * size;
	sum->total_objects += total;
	sum->total_bytes += total * size;
}

void estimate_add(struct estimate *sum, const struct tally *tally)
{
	if (tally_is_told(tally))
		estimate_add_told(sum, tally);
}

static char *name_place(uint32_t thread)
{
	char (*block)[PROFILE_NAME_BYTES] = profile.names[thread / NAME_BLOCK];

	return block == NULL ? NULL : block[thread % NAME_BLOCK];
}

// Numbers the thread. Beyond what names there is room for, threads share the last number.
static void number_thread(struct profile_thread *self)
{
	char (*block)[PROFILE_NAME_BYTES] = NULL;
	uint32_t thread = atomic_load(&profile.threads);

	do
		if (thread == THREADS_MOST) {
			self->thread = thread;
			return;
		}
	while (!atomic_compare_exchange_weak(&profile.threads, &thread, thread + 1));
	self->thread = thread + 1;
	if (profile.names[self->thread / NAME_BLOCK] == NULL)
		block = base_alloc(BASE_LARGEST);
	if (block == NULL)
		return;
	memset(block, 0, BASE_LARGEST);
	mutex_lock(&profile.lock);
	if (profile.names[self->thread / NAME_BLOCK] == NULL) {
		profile.names[self->thread / NAME_BLOCK] = block;
		block = NULL;
	}
	mutex_unlock(&profile.lock);
	if (block != NULL)
		base_free(block, BASE_LARGEST);
}

void profile_name(struct profile_thread *self, const char *name)
{
	bool first = self->thread == 0;
	char *place;

	if (first)
		number_thread(self);
	place = name_place(self->thread);
	if (place == NULL)
		return;
	if (name != NULL)
		strncpy(place, name, PROFILE_NAME_BYTES - 1);
	else if (first && profile_settings.system_thread_names)
		os_thread_name(place, PROFILE_NAME_BYTES);
	black_box_name(self->thread, place);
}

const char *profile_thread_name(uint32_t thread)
{
	const char *place = thread / NAME_BLOCK < NAME_BLOCKS ? name_place(thread) : NULL;

	return place == NULL ? "" : place;
}

const char *profile_name_of(const struct profile_thread *self)
{
	return self->thread == 0 ? "" : profile_thread_name(self->thread);
}

uint32_t profile_threads(void)
{
	return atomic_load(&profile.threads);
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
	mutex_lock(&profile.lock);
	for (uint32_t number = 1; number <= profile.count; number++)
		if (!profile_tally(number)->retired)
			tell_box(number, atomic_load(&profile_tally(number)->live), atomic_load(&profile_tally(number)->total));
	for (uint32_t thread = 1; thread <= profile.threads; thread++)
		black_box_name(thread, profile_thread_name(thread));
	mutex_unlock(&profile.lock);
}

void profile_tell(struct vmag_root *root)
{
	root->profile_active = (uintptr_t)&profile_settings.active;
	root->profile_lg_sample = (uintptr_t)&profile_settings.lg_sample;
	root->profile_lost = (uintptr_t)&profile.lost;
	root->tally_blocks = (uintptr_t)profile.blocks;
	root->tally_count = (uintptr_t)&profile.count;
	root->thread_names = (uintptr_t)profile.names;
	root->thread_count = (uintptr_t)&profile.threads;
	root->tallies_a_block = 1 << LG_BLOCK;
	root->names_a_block = NAME_BLOCK;
	root->name_bytes = PROFILE_NAME_BYTES;
	root->tally_bytes = sizeof(struct tally);
	root->tally_stack = offsetof(struct tally, stack);
	root->tally_size = offsetof(struct tally, size);
	root->tally_thread = offsetof(struct tally, thread);
	root->tally_arena = offsetof(struct tally, arena);
	root->tally_lg_sample = offsetof(struct tally, lg_sample);
	root->tally_retired = offsetof(struct tally, retired);
	root->tally_live = offsetof(struct tally, live);
	root->tally_total = offsetof(struct tally, total);
	root->stack_depth = offsetof(struct stack, depth);
	root->stack_frames = offsetof(struct stack, frames);
}

struct mutex *profile_mutex(void)
{
	return &profile.lock;
}

void profile_fork_prepare(void)
{
	sampled_objects_fork_prepare();
	stacks_fork_prepare();
	mutex_fork_lock(&profile.lock);
}

void profile_fork_done(bool child)
{
	mutex_fork_unlock(&profile.lock);
	stacks_fork_done();
	sampled_objects_fork_done();
	if (child)
		dump_fork_child();
}
