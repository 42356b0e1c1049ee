// Reload: what a miss does, with the previous magazine, the depot and the slabs (2001, Figure 3.1b).
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reload.h"

#include <string.h>

#include "conf/options.h"
#include "heap/bound.h"
#include "heap/capacity.h"
#include "heap/loaded.h"
#include "heap/outbound.h"
#include "heap/own_runs.h"

enum {
	SAMPLES = 8,        // rounds looked at of a full magazine
	// Between two times that a front gives all away there are as many misses at least as
	MISSES_A_GIFT = 48, // it has classes, so that each in use has come back for what it needs, and as
	LG_ROUNDS_A_MISS = 4, // what it gave before has rounds, a sixteenth of them: most of these come back
	// A heap that is being taken down.
	FREES_OF_A_RUN = 3,         // visits to the depot to free, none to allocate, that tell
	LEAST_TAKEN_DOWN = 4 << 20, // bytes of a heap of which it matters
	LEAST_AFTER_A_RUN = 8,      // rounds of the next magazine at least,
	LG_LEFT_PROPORTION = 3,     // and as many as this part of the objects that are left
};

// Returns how many rounds it has.
static uint32_t give(struct front *front, unsigned class, struct magazine *magazine)
{
	uint32_t rounds = magazine != NULL ? magazine->rounds : 0;

	front_put_away(front_arena(front, class), class, magazine);
	return rounds;
}

__attribute__((noinline)) uint32_t front_give_previous(struct front *front, unsigned class)
{
	struct magazine *previous = front->previous[class];

	front_keep_previous(front, class, NULL);
	return give(front, class, previous);
}

__attribute__((noinline)) uint32_t front_give_loaded(struct front *front, unsigned class)
{
	struct magazine *loaded = front_unload_all(front, class);

	front->batch[class] = (uint8_t)front_first_batch(class);
	return give(front, class, loaded);
}

// Everything goes, of whatever class, before the heap takes fresh pages: what is in use comes back from the slabs that it went to.
static __attribute__((noinline)) void give_all(struct front *front)
{
	front->gave_at = front->misses;
	front->gave_rounds = 0;
	for (unsigned class = 1; class < CLASSES; class++)
		if (front->loaded[class] != NULL)
			front->gave_rounds += front_give_previous(front, class) + front_give_loaded(front, class);
	own_runs_give(front, true);
}

static bool may_give_all(const struct front *front)
{
	return front->misses - front->gave_at >= max_size(MISSES_A_GIFT, front->gave_rounds >> LG_ROUNDS_A_MISS);
}

static bool fill(struct front *front, unsigned class, struct magazine *magazine)
{
	size_t room = front_has_one(front, class) ? magazine->capacity / 2u : magazine->capacity; // the other half is for what is freed
	size_t wanted = min_size(front->batch[class], room);
	size_t got;

	if (UNLIKELY(arena_grows(front_arena(front, class), class)) && may_give_all(front)) {
		give_all(front);
		arena_give_idle(front_arena(front, class));
	}
	got = arena_fill(front_arena(front, class), class, magazine->round, wanted);
	if (got == 0) {
		magazine_clear(magazine, front_word(front, class));
		front_load(front, class, magazine);
		return false;
	}
	if (got < wanted) {
		memmove(magazine->round, magazine->round + wanted - got, got * sizeof(void *));
		for (size_t i = got; i < wanted; i++)
			magazine->round[i] = (void *)front_word(front, class);
	}
	magazine->rounds = (uint32_t)got;
	front->batch[class] = (uint8_t)front_next_batch(front->batch[class], magazine->capacity);
	front_load(front, class, magazine);
	return true;
}

// A sized free of NULL puts NULL on top, which looks like the guard: here it is taken off again.
static void drop_null_rounds(struct magazine *loaded, uintptr_t word)
{
	while (loaded != NULL && loaded->rounds > 0 && loaded->round[loaded->rounds - 1] == NULL)
		loaded->round[--loaded->rounds] = (void *)word;
}

// Rounds that only go round in magazines stay where they are, scattered over slabs that never become empty. Where there are many such slabs
// the previous magazine's go home; what is wanted comes from the lowest, and little at a time, so that this happens often.
static __attribute__((noinline)) void send_home(struct front *front, unsigned class, struct magazine *loaded)
{
	struct magazine *previous = front->previous[class];

	front_keep_previous(front, class, NULL);
	front_drain_magazine(front_arena(front, class), class, previous);
	magazine_clear(previous, front_word(front, class));
	front_begin_again(front, class, previous);
	front_begin_again(front, class, loaded);
	front_keep_previous(front, class, previous);
}

// From the slabs, into the loaded magazine, or a larger one when the next shall be.
static bool refill_from_slabs(struct front *front, unsigned class, struct magazine *loaded)
{
	if (loaded == NULL ||
	    (loaded->capacity < front->capacity[class] && !magazine_change(loaded, front->capacity[class], front_word(front, class)))) {
		struct magazine *fresh = front_new_magazine(front, class, CAPACITY_MOST);

		front_grow_capacity(front, class);
		if (fresh != NULL && loaded != NULL)
			magazine_destroy(loaded);
		loaded = fresh != NULL ? fresh : loaded;
	}
	return loaded != NULL && fill(front, class, loaded);
}

// The alloc side of Figure 3.1b, with fills in batches.
static bool refill(struct front *front, unsigned class)
{
	struct magazine *loaded, *empty, *full;
	enum reload reload;
	bool alone;

	loaded = front_unload(front, class);
	drop_null_rounds(loaded, front_word(front, class));
	reload = magazine_with_rounds(loaded, front->previous[class]);
	if (reload == RELOAD_LOADED) {
		front_load(front, class, loaded);
		return true;
	}
	if (reload == RELOAD_PREVIOUS && arena_slabs_are_sparse(front_arena(front, class), class)) {
		send_home(front, class, loaded);
		return refill_from_slabs(front, class, loaded);
	}
	if (reload == RELOAD_PREVIOUS) {
		front_exchange(front, class, front_outgrown(front, class, loaded));
		front->batch[class] = (uint8_t)front_first_batch(class); // it goes up and down, and needs little more than it has
		return true;
	}
	front->frees[class] = 0;
	front->wanted[class] = true;
	full = outbound_exchange(front, class, loaded);
	if (full != NULL) {
		front_load(front, class, full);
		return true;
	}
	alone = front_has_one(front, class) && front->previous[class] == NULL;
	empty = alone ? loaded : front->previous[class];
	front_keep_previous(front, class, alone ? NULL : loaded); // before the depot has it: else who is left in between, by a handler's longjmp, has it, too
	full = arena_exchange_empty(front_arena(front, class), class, empty);
	if (full != NULL) {
		front_load_cold(front, class, full);
		return true;
	}
	if (empty != loaded)
		front->previous[class] = empty;
	return refill_from_slabs(front, class, loaded);
}

// The thread has nothing in its hands here, and what follows begins with the front's arenas.
static __attribute__((noinline)) void move(struct front *front)
{
	struct arena *common = front_is_apart(front) ? front->arena : arena_common(front->arena);

	front->moves = false;
	if (common == front->common || (!arenas_apart() && front->common == front->arena && arena_resident_bytes(front->arena) > LEFT_BEHIND_MOST))
		return;
	front_flush(front);
	front_move(front, front->arena, common);
}

static bool is_to_move(const struct front *front)
{
	return UNLIKELY(front->moves) || (UNLIKELY(front->common != front->arena) && arenas_apart());
}

// The thread's words are open, nobody empties its magazines, and no look at the clock is due.
static bool may_exchange(const struct front *front, unsigned class)
{
	return front->loaded[class] != NULL && front->previous[class] != NULL && front->words->ahead[class] != NULL &&
	       (front->misses + 1) % MISSES_A_LOOK != 0;
}

// Nothing is loaded meanwhile: who is left in between, by a handler's longjmp, loses a magazine and has none twice.
static __attribute__((noinline)) void exchange(struct front *front, unsigned class, struct magazine *loaded, void **top)
{
	struct magazine *previous = front->previous[class];

	front->misses++;
	front->words->top[class] = FRONT_CLOSED;
	front->loaded[class] = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	front->previous[class] = loaded;
	front->previous_rounds[class] = (uint8_t)loaded->rounds;
	atomic_signal_fence(memory_order_seq_cst);
	front->loaded[class] = previous;
	front->loaded_capacity[class] = (uint8_t)previous->capacity;
	front->words->top[class] = top;
}

static bool exchange_for_rounds(struct front *front, unsigned class)
{
	struct magazine *loaded = front->loaded[class], *previous = front->previous[class];

	if (!may_exchange(front, class) || front->words->top[class] != loaded->round || previous->rounds == 0 ||
	    loaded->capacity < front->capacity[class] || front_grows_next(front, class) || arena_slabs_are_sparse(front_arena(front, class), class))
		return false;
	front->exchanges[class]++;
	front->batch[class] = (uint8_t)front_first_batch(class);
	loaded->rounds = 0;
	exchange(front, class, loaded, previous->round + previous->rounds);
	return true;
}

bool front_exchange_for_rounds(struct front *front, unsigned class)
{
	bool done;

	front_enter(front);
	done = exchange_for_rounds(front, class);
	front_leave(front);
	return done;
}

static bool exchange_and_put(struct front *front, unsigned class, void *object)
{
	struct magazine *loaded = front->loaded[class], *previous = front->previous[class];

	if (!may_exchange(front, class) || front->words->top[class] != loaded->round + loaded->capacity || previous->rounds != 0 ||
	    loaded->round[0] == MAGAZINE_GAP)
		return false;
	loaded->rounds = loaded->capacity;
	previous->round[0] = object;
	exchange(front, class, loaded, previous->round + 1);
	return true;
}

bool front_exchange_and_put(struct front *front, unsigned class, void *object)
{
	bool done;

	front_enter(front);
	done = exchange_and_put(front, class, object);
	front_leave(front);
	return done;
}

bool front_refill(struct front *front, unsigned class)
{
	bool done;

	front_note_miss(front);
	if (is_to_move(front))
		move(front);
	if (UNLIKELY(!front_keeps(front, class)) || !bound_allows(front, class))
		return false;
	front_enter(front);
	done = refill(front, class);
	front_leave(front);
	return done;
}

static COLD __attribute__((noinline)) bool is_pure(const struct magazine *full, uintptr_t word)
{
	for (uint32_t i = 0; i < full->rounds; i++)
		if (page_map_word(full->round[i]) != word)
			return false;
	return true;
}

// Sized frees do not look at the page map, so a magazine may hold what does not belong. A few rounds tell whether it does. Where the program has arenas of its own
// all do: of one that is reset or destroyed nothing shall be left in another's depot, nor another's objects in its own.
static inline __attribute__((always_inline)) bool looks_pure(const struct magazine *full, uintptr_t word)
{
	uint32_t step = full->rounds / SAMPLES + 1;

	for (uint32_t i = 0; i < full->rounds; i += step)
		if (page_map_word(full->round[i]) != word)
			return false;
	return LIKELY(!arenas_had_explicit()) || is_pure(full, word);
}

void front_drain_magazine(struct arena *arena, unsigned class, struct magazine *magazine)
{
	if (LIKELY(looks_pure(magazine, arena_word(arena->id, class))))
		arena_drain(arena, class, magazine->round, magazine->rounds, "free");
	else
		rounds_go_home(arena, class, magazine->round, magazine->rounds, "free");
}

// Before a magazine leaves the front, what does not belong is sorted out.
static void verify(struct arena *arena, unsigned class, struct magazine *full)
{
	uintptr_t word = arena_word(arena->id, class);
	uint32_t kept;

	if (LIKELY(looks_pure(full, word)))
		return;
	kept = (uint32_t)rounds_gather(full->round, full->rounds, word);
	rounds_go_home(arena, class, full->round + kept, full->rounds - kept, "free_sized");
	full->rounds = kept;
	magazine_clear_rest(full, word);
}

// Whether most rounds lie further from the one before than a slab is long, by a few of them. A page run is a slab of its own.
bool front_is_scattered(const struct arena *arena, unsigned class, const struct magazine *full)
{
	uint32_t step = full->rounds / SAMPLES + 1, apart = 0, looks = 0;

	if (class >= SLAB_CLASSES)
		return false;
	for (uint32_t i = 1; i < full->rounds; i += step, looks++) {
		uintptr_t one = (uintptr_t)full->round[i], other = (uintptr_t)full->round[i - 1];

		apart += (one > other ? one - other : other - one) >= arena->bins[class].shape.slab_bytes;
	}
	return apart > looks / 2;
}

// Without memory for another magazine the full one is drained and goes on.
static bool empty_in_place(struct front *front, unsigned class, struct magazine *loaded)
{
	if (loaded == NULL)
		return false;
	front_drain_magazine(front_arena(front, class), class, loaded);
	magazine_clear(loaded, front_word(front, class));
	front_load(front, class, loaded);
	return true;
}

// Whether the class came to the depot again and again and nothing was wanted meanwhile.
static bool is_run_of_frees(struct front *front, unsigned class)
{
	if (class >= SLAB_CLASSES || front->frees[class] == FREES_OF_A_RUN)
		return class < SLAB_CLASSES;
	front->frees[class]++;
	return false;
}

// A heap that is being taken down: the fewer objects of the class are left the smaller is the next magazine. For each round that
// the front holds in the end may keep a page of its own.
static unsigned rounds_for_rest(const struct front *front, unsigned class)
{
	const struct arena *arena = front_arena(front, class);
	const struct magazine *previous = front->previous[class];
	size_t free_rounds = atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed) + (previous != NULL ? previous->rounds : 0);
	size_t used = bin_used(&arena->bins[class]), left = used > free_rounds ? (used - free_rounds) >> LG_LEFT_PROPORTION : 0;

	return (unsigned)max_size(LEAST_AFTER_A_RUN, left);
}

// For what is freed. When the heap grows instead, it needs the dirty pages itself, the rest of its newest huge page above all.
static struct magazine *new_magazine_to_fill(struct front *front, unsigned class, unsigned most)
{
	struct magazine *magazine = front_new_magazine(front, class, most);

	front_make_up_for_magazines(front);
	return magazine;
}

// Whether a class that has one magazine, which is full, goes on with it: it has come as far as the depot, and may grow.
static bool stays_alone(struct front *front, unsigned class)
{
	if (front->previous[class] != NULL || !front_has_one(front, class))
		return false;
	front_begin(front, class); // what is loaded may have come from the depot
	front_grow_capacity(front, class);
	return front_has_one(front, class);
}

// To the depot, or to its slabs when that has enough. Returns an empty one, NULL: the depot has none.
static struct magazine *give_full(struct front *front, unsigned class, struct magazine *full, bool scattered)
{
	struct arena *arena = front_arena(front, class);

	if (arena_depot_is_full(arena, class, full->rounds, scattered)) {
		front_drain_magazine(arena, class, full);
		magazine_clear(full, front_word(front, class));
		return full;
	}
	verify(arena, class, full);
	return arena_exchange_full(arena, class, full);
}

// Of the full one the half that was freed first goes to the depot or the slabs, the other is loaded.
static __attribute__((noinline)) bool give_half(struct front *front, unsigned class, struct magazine *loaded)
{
	void *kept[FIRST_CAPACITY / 2];
	uint32_t keep = (uint32_t)min_size(loaded->rounds, front->capacity[class]) / 2;

	loaded->rounds -= keep;
	memcpy(kept, loaded->round + loaded->rounds, keep * sizeof kept[0]);
	magazine_clear_rest(loaded, front_word(front, class));
	loaded = front_grown(front, class, give_full(front, class, loaded, front_is_scattered(front_arena(front, class), class, loaded)));
	if (loaded == NULL)
		loaded = new_magazine_to_fill(front, class, CAPACITY_MOST);
	if (loaded == NULL) {
		rounds_go_home(front_arena(front, class), class, kept, keep, "free");
		return false;
	}
	memcpy(loaded->round, kept, keep * sizeof kept[0]);
	loaded->rounds = keep;
	front_load(front, class, loaded);
	return true;
}

// What is loaded next, out of the empty magazine that the depot gave, if any. NULL: no memory.
static struct magazine *next_magazine(struct front *front, unsigned class, struct magazine *empty, bool ends)
{
	unsigned rest = ends ? rounds_for_rest(front, class) : CAPACITY_MOST;

	if (!ends)
		empty = front_grown(front, class, empty);
	if (empty == NULL)
		empty = new_magazine_to_fill(front, class, rest);
	if (!ends)
		front_grow_capacity(front, class);
	if (empty != NULL && rest < empty->capacity)
		magazine_change(empty, rest, front_word(front, class));
	return empty;
}

static bool is_taken_down(struct front *front, unsigned class, bool scattered)
{
	return is_run_of_frees(front, class) && pages_active_bytes(&front_arena(front, class)->pages) >= LEAST_TAKEN_DOWN && scattered;
}

// Both are full, or there is only one, which is given then: nothing is kept in reserve of a class that the thread only frees.
static bool make_room_by_depot(struct front *front, unsigned class, struct magazine *loaded)
{
	struct magazine *previous = front->previous[class], *full = previous == NULL ? loaded : previous, *empty;
	bool scattered = front_is_scattered(front_arena(front, class), class, full), ends = is_taken_down(front, class, scattered);

	front_keep_previous(front, class, previous == NULL ? NULL : loaded);
	empty = next_magazine(front, class, give_full(front, class, full, scattered), ends);
	if (empty == NULL) {
		loaded = front->previous[class];
		front_keep_previous(front, class, NULL);
		return empty_in_place(front, class, loaded);
	}
	front_load_cold(front, class, empty);
	return true;
}

// The free side of Figure 3.1b.
static bool make_room(struct front *front, unsigned class)
{
	struct magazine *loaded, *previous, *empty;
	enum reload reload;

	loaded = front_unload(front, class);
	previous = front->previous[class];
	reload = magazine_with_room(loaded, previous);
	if (reload == RELOAD_LOADED) { // looking around has made room, or a handler's longjmp out of malloc left the slot as it was
		loaded->round[loaded->rounds] = (void *)front_word(front, class);
		front_load(front, class, loaded);
		return true;
	}
	if (reload == RELOAD_PREVIOUS) {
		front_exchange(front, class, loaded);
		return true;
	}
	if (loaded != NULL && stays_alone(front, class))
		return give_half(front, class, loaded);
	if (loaded != NULL && (previous != NULL || !front->wanted[class]))
		return make_room_by_depot(front, class, loaded);
	empty = new_magazine_to_fill(front, class, CAPACITY_MOST);
	if (empty == NULL)
		return empty_in_place(front, class, loaded);
	if (loaded != NULL)
		front_keep_previous(front, class, loaded);
	front_load(front, class, empty);
	return true;
}

bool front_make_room(struct front *front, unsigned class)
{
	bool done;

	front_note_miss(front);
	if (UNLIKELY(!front_keeps(front, class)) || !bound_allows(front, class))
		return false;
	front_enter(front);
	done = make_room(front, class);
	front_leave(front);
	return done;
}

// Full magazines go to the depot; of others the rounds go to the slabs, lest many threads leave many of them.
void front_put_away(struct arena *arena, unsigned class, struct magazine *magazine)
{
	if (magazine == NULL)
		return;
	if (magazine->rounds == magazine->capacity && !arena_depot_is_full(arena, class, magazine->rounds, false)) {
		verify(arena, class, magazine);
		arena_put(arena, class, magazine);
	} else {
		front_drain_magazine(arena, class, magazine);
		magazine_destroy(magazine);
	}
}

void front_hand_down(struct arena *arena, unsigned class, struct magazine *magazine)
{
	bool grown = magazine != NULL && magazine->capacity > FIRST_CAPACITY && magazine->rounds > 0;

	if (grown && !arena_depot_is_full(arena, class, magazine->rounds, false)) {
		verify(arena, class, magazine);
		if (depot_put_first(&arena->depots[class], magazine, &arena->depot_rounds[class]))
			return;
	}
	front_put_away(arena, class, magazine);
}
