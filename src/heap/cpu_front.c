// malloc on fronts of processors: reloading from the arena, giving back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/cpu_front.h"

#include <stdatomic.h>
#include <string.h>

#include "conf/options.h"
#include "heap/capacity.h"
#include "heap/front.h"
#include "heap/outbound.h"
#include "heap/reclaim.h"
#include "heap/reload.h"
#include "os/clock.h"
#include "pages/page_map.h"
#include "util/assert.h"

_Static_assert((int)CPU_SLOTS < (int)PROCESSOR_CLASSES, "a slot for each class, and the number before the object caches");
_Static_assert((LINE_CLASSES - 1) * 16 == CACHE_LINE, "the first class that is no processor's own");

uintptr_t cpu_word;
_Atomic uintptr_t cpu_words_end;

static struct arena *_Atomic home;
static _Atomic uint64_t tidied_at; // ms
static _Atomic bool left;          // something idle was left then

struct arena *cpu_front_arena(void)
{
	struct arena *arena = atomic_load_explicit(&home, memory_order_acquire), *none = NULL;

	if (LIKELY(arena != NULL))
		return arena;
	arena = arena_make_automatic(0);
	if (arena == NULL || !atomic_compare_exchange_strong(&home, &none, arena))
		return none;
	__atomic_store_n(&cpu_word, arena_word(arena->id, 0), __ATOMIC_RELEASE);
	return arena;
}

// ---- whose objects

static unsigned class_of(unsigned slot)
{
	return slot < HOMEWARD ? slot : slot - HOMEWARD;
}

// Processors have them in turn, as their fronts are made; more processors than arenas share. The first needs no number of processors.
static struct arena *make_own_arena(const struct processor *processor)
{
	unsigned id = processor->place == 0 ? 0 : processor->place % arenas_automatic_most();
	struct arena *own = id == 0 ? cpu_front_arena() : arena_make_automatic(id);

	return own == NULL || !own->is_explicit ? own : cpu_front_arena();
}

static bool is_furnished(const struct processor *processor)
{
	return processor_kinds(processor->tops)[1] != 0;
}

// The front is locked.
static void set_kinds(struct processor *processor, const struct arena *own)
{
	uint16_t *kinds = processor_kinds(processor->tops);

	for (unsigned class = 1; class < CLASSES; class++) {
		const struct arena *arena = class < LINE_CLASSES ? own : home;

		kinds[class] = (uint16_t)arena_word(arena->id, class);
	}
}

// Tells cpu_slot that a processor has this arena, before any object comes from it.
static void admit(const struct arena *own)
{
	uintptr_t end = arena_word(own->id + 1, 0), before = cpu_words_end;

	while (before < end && !atomic_compare_exchange_weak(&cpu_words_end, &before, end))
		;
}

// Making an arena may take long: the front is not locked. False: no memory.
static bool furnish(struct processor *processor)
{
	struct arena *own = cpu_front_arena() == NULL ? NULL : make_own_arena(processor);

	if (own == NULL)
		return false;
	admit(own);
	mutex_lock(&processor->lock);
	if (!is_furnished(processor))
		set_kinds(processor, own);
	mutex_unlock(&processor->lock);
	return true;
}

// The front of the processor that this thread runs on, locked, with arenas. NULL: the slabs have to serve.
static struct processor *enter(void)
{
	for (;;) {
		struct processor *processor = processor_enter();

		if (processor == NULL || LIKELY(is_furnished(processor)))
			return processor;
		processor_leave(processor);
		if (!furnish(processor))
			return NULL;
	}
}

// ---- reloading

// What the next magazine of a class shall have, and how many objects the next fill brings.
struct wanted {
	unsigned capacity, batch;
};

static struct wanted wanted_of(struct processor *processor, unsigned number)
{
	struct processor_slot *slot = &processor->slots[number];
	unsigned class = class_of(number);

	if (slot->capacity == 0)
		slot->capacity = (uint8_t)min_size(FIRST_CAPACITY, front_most_rounds(class));
	if (slot->batch == 0)
		slot->batch = (uint8_t)front_first_batch(class);
	return (struct wanted){ slot->capacity, slot->batch };
}

static void grow_capacity(struct processor *processor, unsigned slot)
{
	unsigned more = processor->slots[slot].capacity * 2u + MAGAZINE_OVERHEAD;

	processor->slots[slot].capacity = (uint8_t)min_size(more, front_grown_rounds(class_of(slot)));
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

// A magazine with rounds for an empty one or NULL, from the depot or else from the slabs.
static struct magazine *fetch_full(struct arena *arena, unsigned class, struct magazine *empty, struct wanted wanted)
{
	struct magazine *full;

	if (empty != NULL) // it leaves: empty slots hold what those of threads' fronts hold
		magazine_clear_rest(empty, arena_word(arena->id, class));
	full = arena_exchange_empty(arena, class, empty);
	if (full == NULL)
		full = fill(arena, class, empty, wanted);
	return full;
}

// The tops of the processor that this thread runs on now, which the fast path finds from now on; unless a handler has just closed the way.
static void ***tops_here(void)
{
	void ***tops = processor_tops();

	if (LIKELY(words.way > 0)) {
		words.way = (intptr_t)tops;
		atomic_signal_fence(memory_order_seq_cst);
		if (UNLIKELY(atomic_load_explicit(&words.front->door_wanted, memory_order_relaxed) != words.door))
			words.way = 0;
	}
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

	*wanted = wanted_of(processor, class);
	found = processor_find_rounds(processor, class, wanted->capacity, hand);
	if (found == FOUND_RELOADED && slot->exchanges == EXCHANGES_A_STEP) {
		slot->exchanges = 0;
		grow_capacity(processor, class);
	} else if (found == FOUND_NOTHING) {
		slot->batch = (uint8_t)front_next_batch(wanted->batch, wanted->capacity);
		if (*hand == NULL || (*hand)->capacity < wanted->capacity)
			grow_capacity(processor, class);
	}
	return found;
}

void *cpu_front_alloc(unsigned class)
{
	void *object;

	if (UNLIKELY(class > size_class(options.tcache_max)))
		return NULL;
	while (!rseq_pop(tops_here(), class, &object)) {
		struct processor *processor = enter();
		struct magazine *hand;
		struct wanted wanted;

		if (processor == NULL)
			return NULL;
		enum found found = find_rounds(processor, class, &wanted, &hand);
		struct arena *arena = arena_of_word(processor_kinds(processor->tops)[class]);
		uint32_t misses = processor->misses;

		processor_leave(processor);
		if (found == FOUND_NOTHING) {
			look(arena, misses);
			hand = fetch_full(arena, class, hand, wanted);
			if (hand == NULL)
				return NULL;
			object = hand->round[--hand->rounds];
			front_put_away(arena, class, processor_bring(processor, class, hand));
			return object;
		}
		if (hand != NULL)
			magazine_destroy(hand);
	}
	return object;
}

// What is left of a magazine whose rounds are given to the slabs or to a depot: an empty one, NULL: none.
static struct magazine *give_full(struct arena *arena, unsigned slot, struct magazine *full)
{
	if (slot >= HOMEWARD)
		return outbound_send_home(arena, class_of(slot), full);
	if (!arena_depot_is_full(arena, slot, full->rounds, front_is_scattered(arena, slot, full))) {
		magazine_clear_rest(full, arena_word(arena->id, slot)); // one that another thread brought may be partly filled
		return arena_exchange_full(arena, slot, full);
	}
	arena_drain(arena, slot, full->round, full->rounds, "free");
	full->rounds = 0;
	return full;
}

// An empty magazine for a full one or NULL. NULL: no memory.
static struct magazine *fetch_empty(struct arena *arena, unsigned slot, struct magazine *full, unsigned capacity)
{
	struct magazine *empty = full == NULL ? NULL : give_full(arena, slot, full);

	if (empty != NULL && empty->capacity < capacity) {
		magazine_destroy(empty);
		empty = NULL;
	}
	return empty != NULL ? empty : magazine_create(capacity, arena_word(arena->id, class_of(slot)));
}

// The rounds' owner, as far as all have the same.
static struct arena *owner_of(unsigned slot, const struct magazine *magazine)
{
	struct arena *owner = slot < LINE_CLASSES && magazine->rounds > 0 ? arena_of_word(page_map_word(magazine->round[0])) : NULL;

	return owner != NULL ? owner : home;
}

// No object is given out by a processor that is not its arena's.
static bool is_of_one_owner(unsigned slot, const struct magazine *magazine)
{
	for (uint32_t i = 1; slot < LINE_CLASSES && i < magazine->rounds; i++)
		if (page_map_word(magazine->round[i]) != page_map_word(magazine->round[0]))
			return false;
	return true;
}

static void put_away(unsigned slot, struct magazine *magazine)
{
	if (magazine == NULL)
		return;
	ASSERT(is_of_one_owner(slot, magazine));
	if (slot < HOMEWARD) {
		front_put_away(owner_of(slot, magazine), slot, magazine);
		return;
	}
	magazine = outbound_send_home(home, class_of(slot), magazine);
	if (magazine != NULL)
		magazine_destroy(magazine);
}

// The free side of a slot.
static enum found find_slots(struct processor *processor, unsigned slot, struct wanted *wanted, struct magazine **hand)
{
	enum found found;

	*wanted = wanted_of(processor, slot);
	found = processor_find_slots(processor, slot, hand);
	if (found == FOUND_NOTHING && *hand != NULL)
		grow_capacity(processor, slot);
	return found;
}

bool cpu_front_free(uintptr_t word, void *object)
{
	if (UNLIKELY(word_class(word) > size_class(options.tcache_max)))
		return false;
	for (void ***tops = tops_here(); !rseq_push(tops, cpu_slot(tops, word_class(word), word), object); tops = tops_here()) {
		struct processor *processor = enter();
		unsigned slot = processor == NULL ? 0 : (unsigned)cpu_slot(processor->tops, word_class(word), word);
		struct magazine *hand;
		struct wanted wanted;

		if (slot == 0) {
			if (processor != NULL)
				processor_leave(processor);
			return false;
		}
		enum found found = find_slots(processor, slot, &wanted, &hand);
		uint32_t misses = processor->misses;

		processor_leave(processor);
		if (found == FOUND_NOTHING) {
			struct arena *arena = slot < HOMEWARD ? arena_of_word(word) : home;

			look(arena, misses);
			hand = fetch_empty(arena, slot, hand, wanted.capacity);
			if (hand == NULL)
				return false;
			hand->round[hand->rounds++] = object;
			put_away(slot, processor_bring(processor, slot, hand));
			return true;
		}
	}
	return true;
}

// ---- giving back

static bool chain(void *taken_, unsigned slot, struct magazine *magazine)
{
	struct magazine **taken = taken_;

	magazine->next = taken[slot];
	taken[slot] = magazine;
	return true;
}

static void drain(unsigned slot, struct magazine *magazine)
{
	rounds_go_home(home, class_of(slot), magazine->round, magazine->rounds, "free");
	magazine_destroy(magazine);
}

static bool collect(bool everything, void (*give)(unsigned slot, struct magazine *magazine))
{
	struct magazine *taken[CPU_SLOTS] = { NULL }, *next;
	bool more = processors_collect(1, CPU_SLOTS, everything, chain, taken);

	for (unsigned slot = 1; slot < CPU_SLOTS; slot++)
		for (; taken[slot] != NULL; taken[slot] = next) {
			next = taken[slot]->next;
			give(slot, taken[slot]);
		}
	return more;
}

bool cpu_fronts_tidy(uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&tidied_at, memory_order_relaxed);

	if (cpu_nowhere == NULL)
		return false;
	if ((int64_t)(now_ms - last) >= TIDY_MS && atomic_compare_exchange_strong(&tidied_at, &last, now_ms))
		atomic_store_explicit(&left, collect(false, put_away), memory_order_relaxed);
	return atomic_load_explicit(&left, memory_order_relaxed);
}

void cpu_fronts_flush(void)
{
	if (cpu_nowhere != NULL)
		collect(true, put_away);
}

void cpu_fronts_drain(void)
{
	if (cpu_nowhere != NULL)
		collect(true, drain);
}

// ---- counting

static void count(void *rounds, unsigned slot, const struct magazine *magazine, size_t held)
{
	(void)magazine;
	((size_t *)rounds)[class_of(slot)] += held;
}

void cpu_fronts_count(size_t rounds[CLASSES])
{
	if (cpu_nowhere != NULL)
		processors_look(1, CPU_SLOTS, count, rounds);
}

static void count_cached(void *bytes_, unsigned slot, const struct magazine *magazine, size_t held)
{
	size_t(*bytes)[2] = bytes_, size = class_size(class_of(slot));

	if (class_of(slot) >= LINE_CLASSES)
		bytes[cpu_front_arena()->id][slot >= SLAB_CLASSES] += held * size;
	else
		for (size_t i = 0; i < held; i++) {
			struct arena *owner = arena_of_word(page_map_word(magazine->round[i]));

			bytes[owner != NULL ? owner->id : 0][0] += size;
		}
}

void cpu_fronts_cached(size_t bytes[ARENAS_MOST][2])
{
	if (cpu_nowhere != NULL)
		processors_look(1, CPU_SLOTS, count_cached, bytes);
}
