// malloc on fronts of processors: reloading from the arena, giving back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/cpu_front.h"

#include <stdatomic.h>
#include <string.h>

#include "conf/options.h"
#include "heap/front.h"
#include "heap/reclaim.h"
#include "os/clock.h"

enum { FIRST_CAPACITY = 12, TIDY_MS = 500, MISSES_A_LOOK = 16, EXCHANGES_A_STEP = 8 };

_Static_assert((int)CLASSES < (int)PROCESSOR_CLASSES, "a slot for each class, and the number before the object caches");

uintptr_t cpu_word;

static struct arena *_Atomic home;
static _Atomic uint64_t tidied_at; // ms
static _Atomic bool left;          // something idle was left then

// All processors use one arena, as in 2001: threads migrate, and what they free elsewhere is at home everywhere.
struct arena *cpu_front_arena(void)
{
	struct arena *arena = atomic_load_explicit(&home, memory_order_acquire), *none = NULL;

	if (LIKELY(arena != NULL))
		return arena;
	arena = arena_of(0) != NULL ? arena_of(0) : arena_for_thread();
	if (arena == NULL || !atomic_compare_exchange_strong(&home, &none, arena))
		return none;
	__atomic_store_n(&cpu_word, arena_word(arena->id, 0), __ATOMIC_RELEASE);
	return arena;
}

// What the next magazine of a class shall have, and how many objects the next fill brings.
struct wanted {
	unsigned capacity, batch;
};

static struct wanted wanted_of(struct processor_slot *slot, unsigned class)
{
	if (slot->capacity == 0)
		slot->capacity = (uint8_t)min_size(FIRST_CAPACITY, front_most_rounds(class));
	if (slot->batch == 0)
		slot->batch = (uint8_t)front_first_batch(class);
	return (struct wanted){ slot->capacity, slot->batch };
}

static void grow_capacity(struct processor_slot *slot, unsigned class)
{
	unsigned more = slot->capacity * 2u + MAGAZINE_OVERHEAD;

	slot->capacity = (uint8_t)min_size(more, front_grown_rounds(class));
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

static struct magazine *fill(struct arena *arena, unsigned class, struct magazine *empty, struct wanted wanted)
{
	size_t count, got;

	if (empty == NULL || empty->capacity < wanted.capacity) {
		struct magazine *fresh = magazine_create(wanted.capacity, arena_word(arena->id, class));

		if (fresh != NULL && empty != NULL)
			magazine_destroy(empty);
		empty = fresh != NULL ? fresh : empty;
	}
	if (empty == NULL)
		return NULL;
	count = min_size(wanted.batch, empty->capacity);
	if (UNLIKELY(arena_grows(arena, class)))
		arena_give_idle(arena);
	got = arena_fill(arena, class, empty->round, count);
	if (got == 0) {
		magazine_destroy(empty);
		return NULL;
	}
	if (got < count)
		memmove(empty->round, empty->round + count - got, got * sizeof(void *));
	empty->rounds = (uint32_t)got;
	return empty;
}

static void prefetch_objects(const struct magazine *magazine)
{
	for (uint32_t i = magazine->rounds; i-- > 0;)
		__builtin_prefetch(magazine->round[i], 1);
}

// A magazine with rounds for an empty one or NULL, from the depot or else from the slabs.
static struct magazine *fetch_full(struct arena *arena, unsigned class, struct magazine *empty, struct wanted wanted)
{
	struct magazine *full;

	if (empty != NULL)
		clear_slots(empty, arena_word(arena->id, class));
	full = arena_exchange_empty(arena, class, empty);
	if (full == NULL)
		full = fill(arena, class, empty, wanted);
	if (full != NULL)
		prefetch_objects(full);
	return full;
}

// The tops of the processor that this thread runs on now, which the fast path finds from now on.
static void ***tops_here(void)
{
	void ***tops = processor_tops();

	if (LIKELY(words.way > 0))
		words.way = (intptr_t)tops;
	return tops;
}

void *cpu_front_take(unsigned class)
{
	void *object;

	return rseq_pop(tops_here(), class, &object) ? object : NULL;
}

// The alloc side, up to the front's own magazines.
static enum found find_rounds(struct processor *processor, unsigned class, struct wanted *wanted, struct magazine **hand)
{
	struct processor_slot *slot = &processor->slots[class];
	enum found found;

	*wanted = wanted_of(slot, class);
	found = processor_find_rounds(processor, class, wanted->capacity, hand);
	if (found == FOUND_RELOADED && slot->exchanges == EXCHANGES_A_STEP) {
		slot->exchanges = 0;
		grow_capacity(slot, class);
	} else if (found == FOUND_NOTHING) {
		slot->batch = (uint8_t)min_size(wanted->batch * 2, wanted->capacity);
		if (*hand == NULL || (*hand)->capacity < wanted->capacity)
			grow_capacity(slot, class);
	}
	return found;
}

void *cpu_front_alloc(unsigned class)
{
	struct arena *arena = cpu_front_arena();
	void *object;

	if (UNLIKELY(arena == NULL || class > size_class(options.tcache_max)))
		return NULL;
	while (!rseq_pop(tops_here(), class, &object)) {
		struct processor *processor = processor_enter();
		struct magazine *hand;
		struct wanted wanted;

		if (processor == NULL)
			return NULL;
		enum found found = find_rounds(processor, class, &wanted, &hand);
		uint32_t misses = processor->misses;

		processor_leave(processor);
		if (found == FOUND_NOTHING) {
			look(arena, misses);
			hand = fetch_full(arena, class, hand, wanted);
			if (hand == NULL)
				return NULL;
			object = hand->round[--hand->rounds];
			front_put_away(arena, class, processor_bring(class, hand));
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

	if (full != NULL && arena_depot_is_full(arena, class, full->rounds, front_is_scattered(arena, class, full))) {
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

bool cpu_front_free(uintptr_t word, void *object)
{
	unsigned class = word_class(word);
	struct arena *arena = cpu_front_arena();

	if (UNLIKELY(arena == NULL || word - class != cpu_word || class > size_class(options.tcache_max)))
		return false;
	while (!rseq_push(tops_here(), class, object)) {
		struct processor *processor = processor_enter();
		struct magazine *hand;

		if (processor == NULL)
			return false;
		struct wanted wanted = wanted_of(&processor->slots[class], class);
		enum found found = processor_find_slots(processor, class, &hand);
		uint32_t misses = processor->misses;

		if (found == FOUND_NOTHING && hand != NULL)
			grow_capacity(&processor->slots[class], class);
		processor_leave(processor);
		if (found == FOUND_NOTHING) {
			look(arena, misses);
			hand = fetch_empty(arena, class, hand, wanted.capacity);
			if (hand == NULL)
				return false;
			hand->round[hand->rounds++] = object;
			front_put_away(arena, class, processor_bring(class, hand));
			return true;
		}
	}
	return true;
}

// ---- giving back

static bool chain(void *taken_, unsigned class, struct magazine *magazine)
{
	struct magazine **taken = taken_;

	magazine->next = taken[class];
	taken[class] = magazine;
	return true;
}

static void put_away(unsigned class, struct magazine *magazine, bool drain)
{
	if (!drain) {
		front_put_away(home, class, magazine);
		return;
	}
	arena_drain(home, class, magazine->round, magazine->rounds, "free");
	magazine_destroy(magazine);
}

static bool collect(bool everything, bool drain)
{
	struct magazine *taken[CLASSES] = { NULL }, *next;
	bool more = processors_collect(1, CLASSES, everything, chain, taken);

	for (unsigned class = 1; class < CLASSES; class++)
		for (; taken[class] != NULL; taken[class] = next) {
			next = taken[class]->next;
			put_away(class, taken[class], drain);
		}
	return more;
}

bool cpu_fronts_tidy(uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&tidied_at, memory_order_relaxed);

	if (cpu_nowhere == NULL)
		return false;
	if ((int64_t)(now_ms - last) >= TIDY_MS && atomic_compare_exchange_strong(&tidied_at, &last, now_ms))
		atomic_store_explicit(&left, collect(false, false), memory_order_relaxed);
	return atomic_load_explicit(&left, memory_order_relaxed);
}

void cpu_fronts_flush(void)
{
	if (cpu_nowhere != NULL)
		collect(true, false);
}

void cpu_fronts_drain(void)
{
	if (cpu_nowhere != NULL)
		collect(true, true);
}

static void count(void *rounds, unsigned class, const struct magazine *magazine, size_t held)
{
	(void)magazine;
	((size_t *)rounds)[class] += held;
}

void cpu_fronts_count(size_t rounds[CLASSES])
{
	if (cpu_nowhere != NULL)
		processors_look(1, CLASSES, count, rounds);
}
