// Fronts of processors: making them, reloading, sending objects home, stopping all of them to give back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/cpu_front.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "conf/options.h"
#include "heap/front.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/rseq.h"
#include "util/assert.h"

enum { FIRST_CAPACITY = 12, TIDY_MS = 500, MISSES_A_LOOK = 16, EXCHANGES_A_STEP = 8 };

struct words_of_cpu {
	uintptr_t word; // the page map's word of the arena, class 0: the tag of sequences
	void **top[CLASSES];
};

// Objects of another arena on their way home.
struct parcel {
	uintptr_t word;
	struct magazine *magazine;
};

struct cpu_front {
	// Written by sequences on the processor, and by the holder of the lock where they cannot commit.
	struct words_of_cpu words __attribute__((aligned(CACHE_LINE)));
	// Constant after creation.
	int number;
	struct arena *arena;
	// Under lock; `taken` under the lock of all fronts.
	struct mutex lock __attribute__((aligned(CACHE_LINE)));
	bool stopped;
	uint32_t misses;
	struct magazine *loaded[CLASSES]; // NULL: the class is closed
	struct magazine *previous[CLASSES];
	struct magazine *taken[CLASSES]; // chains, on their way out
	void **seen[CLASSES];            // top when idle magazines were last looked for
	uint8_t capacity[CLASSES];       // of the next magazine
	uint8_t batch[CLASSES];          // of the next fill
	uint8_t exchanges[CLASSES];      // of loaded and previous, counted round and round
	struct parcel outbound[OUTBOUND_SLOTS];
};

static void *const closed_magazine[2] = { NULL, MAGAZINE_FULL };
#define CLOSED ((void **)(uintptr_t)&closed_magazine[1])

static struct words_of_cpu closed_words = { .top = { [0 ... CLASSES - 1] = (void **)(uintptr_t)&closed_magazine[1] } };

void ****cpu_table;

static struct {
	struct mutex lock;
	// Constant after init.
	unsigned numbers;
	struct cpu_front *_Atomic *of; // by number; NULL: not made yet. Written under lock.
	// Under lock.
	bool stopped; // all of them, for fork
	// Atomic.
	_Atomic uint64_t tidied_at; // ms
	_Atomic bool left;          // something idle was left then
} fronts = { .lock = MUTEX_INIT(RANK_CPU_FRONTS) };

// ---- making

static struct arena *arena_of_word(uintptr_t word)
{
	return arena_of((unsigned)(word >> 8) - 1);
}

static void point(unsigned number, struct words_of_cpu *at)
{
	__atomic_store_n(&cpu_table[number], at->top, __ATOMIC_RELEASE);
}

bool cpu_fronts_init(void)
{
	unsigned numbers = os_rseq_numbers();
	void ****table;

	if (!os_rseq_init() || rseq_number() >= (int)numbers)
		return false;
	table = base_alloc_pages(2 * numbers * sizeof *table);
	if (table == NULL)
		return false;
	fronts.numbers = numbers;
	fronts.of = (struct cpu_front *_Atomic *)(void *)(table + numbers);
	cpu_table = table;
	for (unsigned number = 0; number < numbers; number++)
		point(number, &closed_words);
	return true;
}

static void front_init(struct cpu_front *front, int number, struct arena *arena)
{
	memset(front, 0, sizeof *front);
	front->words = closed_words;
	front->words.word = arena_word(arena->id, 0);
	front->number = number;
	front->arena = arena;
	mutex_init(&front->lock, RANK_CPU_FRONT);
	for (unsigned class = 1; class < CLASSES; class++) {
		front->capacity[class] = (uint8_t)min_size(FIRST_CAPACITY, front_most_rounds(class));
		front->batch[class] = (uint8_t)front_first_batch(class);
	}
}

static struct cpu_front *front_of(unsigned number)
{
	return atomic_load_explicit(&fronts.of[number], memory_order_acquire);
}

// All processors use one arena, as in 2001: threads migrate, and what they free elsewhere is at home everywhere.
static struct arena *arena_for_cpu(void)
{
	struct arena *arena = arena_of(0);

	return arena != NULL ? arena : arena_for_thread();
}

static struct cpu_front *front_create(unsigned number)
{
	struct arena *arena = arena_for_cpu();
	struct cpu_front *front = arena == NULL ? NULL : base_alloc(sizeof *front);

	if (front == NULL)
		return NULL;
	front_init(front, (int)number, arena);
	mutex_lock(&fronts.lock);
	if (front_of(number) != NULL) {
		mutex_unlock(&fronts.lock);
		base_free(front, sizeof *front);
		return front_of(number);
	}
	front->stopped = fronts.stopped;
	atomic_store_explicit(&fronts.of[number], front, memory_order_release);
	if (!front->stopped)
		point(number, &front->words);
	mutex_unlock(&fronts.lock);
	return front;
}

static struct cpu_front *front_here(void)
{
	int number = rseq_number();
	struct cpu_front *front;

	if (UNLIKELY(number < 0))
		return NULL;
	front = front_of((unsigned)number);
	return LIKELY(front != NULL) ? front : front_create((unsigned)number);
}

struct arena *cpu_front_arena(void)
{
	struct cpu_front *front = front_here();

	return front != NULL ? front->arena : arena_for_cpu();
}

// ---- reloading

// The front of the processor that this thread runs on, locked; it may run on another one at any time. NULL: fronts are stopped, or there is no memory.
static struct cpu_front *enter(void)
{
	struct cpu_front *front = front_here();

	if (front == NULL)
		return NULL;
	mutex_lock(&front->lock);
	if (LIKELY(!front->stopped))
		return front;
	mutex_unlock(&front->lock);
	return NULL;
}

static void leave(struct cpu_front *front)
{
	mutex_unlock(&front->lock);
}

// The class is closed.
static void load(struct cpu_front *front, unsigned class, struct magazine *magazine)
{
	front->loaded[class] = magazine;
	if (magazine != NULL)
		__atomic_store_n(&front->words.top[class], magazine->round + magazine->rounds, __ATOMIC_RELEASE);
}

// Takes the loaded magazine out, its rounds counted; the class is closed. False: this thread has left the processor.
static bool unload(struct cpu_front *front, unsigned class, struct magazine **loaded)
{
	void **top;

	if (!rseq_exchange(front->number, &front->words.top[class], CLOSED, &top))
		return false;
	*loaded = front->loaded[class];
	front->loaded[class] = NULL;
	if (*loaded != NULL)
		(*loaded)->rounds = (uint32_t)(top - (*loaded)->round);
	return true;
}

static void grow_capacity(struct cpu_front *front, unsigned class)
{
	unsigned more = front->capacity[class] * 2u + MAGAZINE_OVERHEAD;

	front->capacity[class] = (uint8_t)min_size(more, front_most_rounds(class));
}

enum found {
	MOVED,    // nothing happened: this thread runs on another processor now
	RELOADED, // what was missing is there; in hand: what is too small to go on with, or NULL
	NOTHING,  // the front has none; in hand: what goes to the depot, or NULL
};

// The alloc side of Figure 3.1b, as far as the front's own magazines go.
static enum found find_rounds(struct cpu_front *front, unsigned class, struct magazine **hand)
{
	struct magazine *loaded, *previous = front->previous[class];

	*hand = NULL;
	if (!unload(front, class, &loaded))
		return MOVED;
	if (loaded != NULL && loaded->rounds > 0) { // somebody was faster
		load(front, class, loaded);
		return RELOADED;
	}
	if (previous == NULL || previous->rounds == 0) {
		*hand = loaded;
		return NOTHING;
	}
	if (++front->exchanges[class] % EXCHANGES_A_STEP == 0)
		grow_capacity(front, class);
	front->previous[class] = loaded;
	if (loaded != NULL && loaded->capacity < front->capacity[class]) {
		front->previous[class] = NULL;
		*hand = loaded;
	}
	load(front, class, previous);
	return RELOADED;
}

// The free side.
static enum found find_slots(struct cpu_front *front, unsigned class, struct magazine **hand)
{
	struct magazine *loaded, *previous = front->previous[class];

	*hand = NULL;
	if (!unload(front, class, &loaded))
		return MOVED;
	if (loaded != NULL && loaded->rounds < loaded->capacity) {
		load(front, class, loaded);
		return RELOADED;
	}
	if (previous != NULL && previous->rounds == 0) {
		front->previous[class] = loaded;
		load(front, class, previous);
		return RELOADED;
	}
	if (loaded != NULL) {
		front->previous[class] = loaded;
		*hand = previous;
	}
	if (*hand != NULL)
		grow_capacity(front, class);
	return NOTHING;
}

// A magazine comes back from the depot or from the slabs, and may find that it is not needed any more.
static void bring(struct arena *arena, unsigned class, struct magazine *magazine)
{
	struct cpu_front *front = enter();

	if (front != NULL) {
		if (front->arena == arena && front->loaded[class] == NULL) {
			load(front, class, magazine);
			magazine = NULL;
		} else if (front->arena == arena && front->previous[class] == NULL) {
			front->previous[class] = magazine;
			magazine = NULL;
		}
		leave(front);
	}
	front_put_away(arena, class, magazine);
}

// In magazines that leave, empty slots hold what those of threads' fronts hold.
static void clear_slots(struct magazine *magazine, uintptr_t word)
{
	for (uint32_t i = magazine->rounds; i < magazine->capacity; i++)
		magazine->round[i] = (void *)word;
}

// Every now and then somebody has to look at the clock. May call malloc and free.
static void look(struct arena *arena, uint32_t misses)
{
	uint64_t now;

	if (misses % MISSES_A_LOOK != 0)
		return;
	now = os_clock_ms();
	cpu_fronts_tidy(now);
	reclaim_look(arena, now);
}

static struct magazine *fill(struct arena *arena, unsigned class, struct magazine *empty, unsigned capacity, unsigned batch)
{
	size_t wanted, got;

	if (empty == NULL || empty->capacity < capacity) {
		struct magazine *fresh = magazine_create(capacity, arena_word(arena->id, class));

		if (fresh != NULL && empty != NULL)
			magazine_destroy(empty);
		empty = fresh != NULL ? fresh : empty;
	}
	if (empty == NULL)
		return NULL;
	wanted = min_size(batch, empty->capacity);
	got = arena_fill(arena, class, empty->round, wanted);
	if (got == 0) {
		magazine_destroy(empty);
		return NULL;
	}
	if (got < wanted)
		memmove(empty->round, empty->round + wanted - got, got * sizeof(void *));
	empty->rounds = (uint32_t)got;
	return empty;
}

static void prefetch_objects(const struct magazine *magazine)
{
	for (uint32_t i = magazine->rounds; i-- > 0;)
		__builtin_prefetch(magazine->round[i], 1);
}

// A magazine with rounds for an empty one or NULL, from the depot or else from the slabs.
static struct magazine *fetch_full(struct arena *arena, unsigned class, struct magazine *empty, unsigned capacity, unsigned batch)
{
	struct magazine *full;

	if (empty != NULL)
		clear_slots(empty, arena_word(arena->id, class));
	full = arena_exchange_empty(arena, class, empty);
	if (full == NULL)
		full = fill(arena, class, empty, capacity, batch);
	if (full != NULL)
		prefetch_objects(full);
	return full;
}

void *cpu_front_take(unsigned class)
{
	void *object;

	return rseq_pop(cpu_table, class, &object) ? object : NULL;
}

void *cpu_front_alloc(unsigned class)
{
	void *object;

	if (UNLIKELY(class_size(class) > options.tcache_max))
		return NULL;
	while (!rseq_pop(cpu_table, class, &object)) {
		struct cpu_front *front = enter();
		struct magazine *hand;

		if (front == NULL)
			return NULL;
		enum found found = find_rounds(front, class, &hand);
		struct arena *arena = front->arena;
		uint32_t misses = ++front->misses;
		unsigned capacity = front->capacity[class], batch = front->batch[class];

		if (found == NOTHING) {
			front->batch[class] = (uint8_t)min_size(batch * 2, capacity);
			if (hand == NULL || hand->capacity < capacity)
				grow_capacity(front, class);
		}
		leave(front);
		if (found == NOTHING) {
			look(arena, misses);
			hand = fetch_full(arena, class, hand, capacity, batch);
			if (hand == NULL)
				return NULL;
			object = hand->round[--hand->rounds];
			bring(arena, class, hand);
			return object;
		}
		if (hand != NULL)
			magazine_destroy(hand);
	}
	return object;
}

// An empty magazine for a full one or NULL. NULL: no memory.
static struct magazine *fetch_empty(struct arena *arena, unsigned class, struct magazine *full, unsigned capacity)
{
	uintptr_t word = arena_word(arena->id, class);
	struct magazine *empty = NULL;

	if (full != NULL && arena_depot_is_full(arena, class, full->rounds, front_is_scattered(full))) {
		arena_drain(arena, class, full->round, full->rounds, "free");
		empty = full;
		empty->rounds = 0;
	} else if (full != NULL) {
		clear_slots(full, word);
		empty = arena_exchange_full(arena, class, full);
	}
	if (empty != NULL && empty->capacity < capacity) {
		magazine_destroy(empty);
		empty = NULL;
	}
	return empty != NULL ? empty : magazine_create(capacity, word);
}

// An object of another arena; the front is locked, and left here.
static bool send(struct cpu_front *front, uintptr_t word, void *object)
{
	unsigned class = word_class(word), slot = (unsigned)(word ^ word >> 8) % OUTBOUND_SLOTS;
	struct parcel outbound = front->outbound[slot];
	struct magazine *magazine = outbound.magazine;

	if (arena_of_word(word)->is_explicit) { // at home at once, lest it be on its way when the arena is reset
		leave(front);
		return false;
	}
	if (magazine != NULL && outbound.word == word) {
		magazine->round[magazine->rounds++] = object;
		if (magazine->rounds == magazine->capacity)
			front->outbound[slot].magazine = NULL;
		else
			magazine = NULL;
		leave(front);
		front_put_away(arena_of_word(word), class, magazine);
		return true;
	}
	leave(front);
	magazine = magazine_create(front_most_rounds(class), word);
	if (magazine == NULL)
		return false;
	magazine->round[magazine->rounds++] = object;
	outbound = (struct parcel){ word, magazine };
	front = enter();
	if (front != NULL) {
		struct parcel displaced = front->outbound[slot];

		front->outbound[slot] = outbound;
		leave(front);
		outbound = displaced;
	}
	if (outbound.magazine != NULL)
		front_put_away(arena_of_word(outbound.word), word_class(outbound.word), outbound.magazine);
	return true;
}

bool cpu_front_free(uintptr_t word, void *object)
{
	unsigned class = word_class(word);

	if (UNLIKELY(class_size(class) > options.tcache_max))
		return false;
	while (!rseq_push(cpu_table, word - class, class, object)) {
		struct cpu_front *front = enter();
		struct magazine *hand;

		if (front == NULL)
			return false;
		if (front->words.word != word - class)
			return send(front, word, object);
		enum found found = find_slots(front, class, &hand);
		struct arena *arena = front->arena;
		uint32_t misses = ++front->misses;
		unsigned capacity = front->capacity[class];

		leave(front);
		if (found == NOTHING) {
			look(arena, misses);
			hand = fetch_empty(arena, class, hand, capacity);
			if (hand == NULL)
				return false;
			hand->round[hand->rounds++] = object;
			bring(arena, class, hand);
			return true;
		}
	}
	return true;
}

// ---- stopping all of them

// Afterwards no sequence is under way on a front, and none begins. The caller holds the lock of all fronts.
static bool stop_all(void)
{
	for (unsigned number = 0; number < fronts.numbers; number++) {
		struct cpu_front *front = front_of(number);

		if (front == NULL)
			continue;
		mutex_lock(&front->lock);
		front->stopped = true;
		point(number, &closed_words);
		mutex_unlock(&front->lock);
	}
	return os_rseq_fence();
}

static void start_all(void)
{
	for (unsigned number = 0; number < fronts.numbers; number++) {
		struct cpu_front *front = front_of(number);

		if (front == NULL)
			continue;
		mutex_lock(&front->lock);
		front->stopped = false;
		point(number, &front->words);
		mutex_unlock(&front->lock);
	}
}

static void take(struct cpu_front *front, unsigned class, struct magazine *magazine)
{
	if (magazine == NULL)
		return;
	magazine->next = front->taken[class];
	front->taken[class] = magazine;
}

static void take_previous(struct cpu_front *front, unsigned class)
{
	take(front, class, front->previous[class]);
	front->previous[class] = NULL;
}

// The front is stopped.
static void take_loaded(struct cpu_front *front, unsigned class)
{
	struct magazine *loaded = front->loaded[class];

	if (loaded != NULL)
		loaded->rounds = (uint32_t)(front->words.top[class] - loaded->round);
	take(front, class, loaded);
	front->loaded[class] = NULL;
	front->words.top[class] = CLOSED;
}

// What was not used since the last look: first the previous magazine, then the loaded one.
static bool take_idle(struct cpu_front *front, unsigned class)
{
	bool idle = front->words.top[class] == front->seen[class];

	if (idle && front->previous[class] != NULL)
		take_previous(front, class);
	else if (idle)
		take_loaded(front, class);
	if (idle)
		front->batch[class] = (uint8_t)front_first_batch(class);
	front->seen[class] = front->words.top[class];
	return idle && front->loaded[class] != NULL;
}

// True: something idle is left for the next time.
static bool take_from(struct cpu_front *front, bool everything)
{
	bool left = false;

	for (unsigned class = 1; class < CLASSES; class++)
		if (everything) {
			take_previous(front, class);
			take_loaded(front, class);
		} else if (front->loaded[class] != NULL || front->previous[class] != NULL)
			left |= take_idle(front, class);
	return left;
}

static void put_away(struct cpu_front *front, unsigned class, struct magazine *magazine, bool drain)
{
	if (!drain) {
		front_put_away(front->arena, class, magazine);
		return;
	}
	arena_drain(front->arena, class, magazine->round, magazine->rounds, "free");
	magazine_destroy(magazine);
}

static void put_taken_away(struct cpu_front *front, bool drain)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		struct magazine *chain, *next;

		mutex_lock(&fronts.lock);
		chain = front->taken[class];
		front->taken[class] = NULL;
		mutex_unlock(&fronts.lock);
		for (; chain != NULL; chain = next) {
			next = chain->next;
			put_away(front, class, chain, drain);
		}
	}
}

static void send_outbound(struct cpu_front *front)
{
	for (unsigned slot = 0; slot < OUTBOUND_SLOTS; slot++) {
		struct parcel outbound;

		mutex_lock(&front->lock);
		outbound = front->outbound[slot];
		front->outbound[slot].magazine = NULL;
		mutex_unlock(&front->lock);
		if (outbound.magazine != NULL)
			front_put_away(arena_of_word(outbound.word), word_class(outbound.word), outbound.magazine);
	}
}

static bool collect(bool everything, bool drain)
{
	bool left = false;

	mutex_lock(&fronts.lock);
	if (fronts.stopped) { // this thread forks
		mutex_unlock(&fronts.lock);
		return false;
	}
	if (stop_all())
		for (unsigned number = 0; number < fronts.numbers; number++)
			if (front_of(number) != NULL)
				left |= take_from(front_of(number), everything);
	start_all();
	mutex_unlock(&fronts.lock);
	for (unsigned number = 0; number < fronts.numbers; number++)
		if (front_of(number) != NULL) {
			put_taken_away(front_of(number), drain);
			send_outbound(front_of(number));
		}
	return left;
}

bool cpu_fronts_tidy(uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&fronts.tidied_at, memory_order_relaxed);

	if (cpu_table == NULL)
		return false;
	if ((int64_t)(now_ms - last) >= TIDY_MS && atomic_compare_exchange_strong(&fronts.tidied_at, &last, now_ms))
		atomic_store_explicit(&fronts.left, collect(false, false), memory_order_relaxed);
	return atomic_load_explicit(&fronts.left, memory_order_relaxed);
}

void cpu_fronts_flush(void)
{
	if (cpu_table != NULL)
		collect(true, false);
}

void cpu_fronts_drain(void)
{
	if (cpu_table != NULL)
		collect(true, true);
}

// A loaded magazine stays what it is while the lock is held; only its top moves.
static void count(struct cpu_front *front, size_t rounds[CLASSES])
{
	mutex_lock(&front->lock);
	for (unsigned class = 1; class < CLASSES; class++) {
		const struct magazine *loaded = front->loaded[class], *previous = front->previous[class];

		if (loaded != NULL)
			rounds[class] += (size_t)(__atomic_load_n(&front->words.top[class], __ATOMIC_RELAXED) - loaded->round);
		if (previous != NULL)
			rounds[class] += previous->rounds;
	}
	mutex_unlock(&front->lock);
}

void cpu_fronts_count(size_t rounds[CLASSES])
{
	for (unsigned number = 0; cpu_table != NULL && number < fronts.numbers; number++)
		if (front_of(number) != NULL)
			count(front_of(number), rounds);
}

// ---- fork

static bool whole; // the fronts were stopped before the fork

void cpu_fronts_fork_prepare(void)
{
	if (cpu_table == NULL)
		return;
	mutex_fork_lock(&fronts.lock);
	fronts.stopped = true;
	whole = stop_all();
	for (unsigned number = 0; number < fronts.numbers; number++)
		if (front_of(number) != NULL)
			mutex_fork_lock(&front_of(number)->lock);
}

// What a front held when its pages were copied while others worked on it cannot be trusted, and stays unused.
static void forget(struct cpu_front *front)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		front->loaded[class] = front->previous[class] = NULL;
		front->words.top[class] = CLOSED;
	}
	memset(front->outbound, 0, sizeof front->outbound);
}

void cpu_fronts_fork_done(bool child)
{
	if (cpu_table == NULL)
		return;
	for (unsigned number = 0; number < fronts.numbers; number++)
		if (front_of(number) != NULL) {
			if (child && !whole)
				forget(front_of(number));
			mutex_fork_unlock(&front_of(number)->lock);
		}
	fronts.stopped = false;
	start_all();
	mutex_fork_unlock(&fronts.lock);
}
