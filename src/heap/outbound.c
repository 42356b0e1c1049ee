// Outbound magazines: filling, sending home, taking back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/outbound.h"

#include <stdatomic.h>

#include "heap/bound.h"
#include "heap/capacity.h"
#include "heap/loaded.h"
#include "pages/page_map.h"

enum {
	OUTBOUND_FIRST = 60,   // rounds of the first outbound magazine of a class
	OUTBOUND_CROWDED = 12, // the same while the fronts hold what they may
	STREAM = 200,          // rounds sent home in full magazines that tell a steady stream
	UNTAKEN = 3,           // full magazines after that, none taken back in between, that tell that larger ones are worth it
	LG_WORTH_TAKING = 2,   // the part of a magazine that must be exceeded for it to be taken back
};

static void load(struct outbound *outbound, struct magazine *magazine)
{
	outbound->magazine = magazine;
	outbound->top = magazine == NULL ? FRONT_CLOSED : magazine->round + magazine->rounds;
}

// None when another thread has taken all (heap/sleepers.h).
static size_t rounds_in(const struct outbound *outbound)
{
	return outbound->top == FRONT_CLOSED ? 0 : (size_t)(outbound->top - outbound->magazine->round);
}

// The magazine, its rounds counted; NULL: there is none.
static struct magazine *unload(struct outbound *outbound)
{
	struct magazine *magazine = outbound->magazine;

	if (magazine != NULL) {
		magazine->rounds = (uint32_t)rounds_in(outbound);
		magazine_close_gap(magazine);
	}
	load(outbound, NULL);
	return magazine;
}

size_t rounds_gather(void **rounds, size_t count, uintptr_t word)
{
	size_t same = 0;

	for (size_t i = 0; i < count; i++)
		if (page_map_word(rounds[i]) == word) {
			void *round = rounds[i];

			rounds[i] = rounds[same];
			rounds[same++] = round;
		}
	return same;
}

void rounds_go_home(struct arena *arena, unsigned class, void **rounds, size_t count, const char *call)
{
	while (count > 0) {
		unsigned word = page_map_word(rounds[0]);
		struct arena *owner = word_class(word) == class ? arena_of_word(word) : NULL;
		size_t same = rounds_gather(rounds, count, word);

		arena_drain(owner != NULL ? owner : arena, class, rounds, same, call);
		rounds += same;
		count -= same;
	}
}

// The word of all rounds, 0: they have several.
static unsigned common_word(const struct magazine *full)
{
	unsigned word = page_map_word(full->round[0]);

	for (uint32_t i = 1; i < full->rounds; i++)
		if (page_map_word(full->round[i]) != word)
			return 0;
	return word;
}

struct magazine *outbound_send_home(struct arena *arena, unsigned class, struct magazine *magazine)
{
	bool full = magazine->rounds == magazine->capacity;
	unsigned word = full ? common_word(magazine) : 0;
	struct arena *owner = word_class(word) == class ? arena_of_word(word) : NULL;

	if (owner != NULL && !arena_depot_is_full(owner, class, magazine->rounds, false))
		return arena_exchange_full(owner, class, magazine);
	rounds_go_home(arena, class, magazine->round, magazine->rounds, "free");
	magazine->rounds = 0;
	return magazine;
}

static void set_capacity(struct front *front, unsigned class, size_t rounds)
{
	front_count_bytes(front, (rounds - front->outbound_capacity[class]) * class_size(class));
	front->outbound_capacity[class] = (uint8_t)rounds;
}

// Those that are full again and again shall be larger, unless the fronts hold enough.
static void grow_capacity(struct front *front, unsigned class)
{
	size_t now = front->outbound_capacity[class], wanted = now * 2 + MAGAZINE_OVERHEAD;
	bool crowded = fronts_hold_enough(front->common);

	if (now == 0)
		wanted = crowded ? OUTBOUND_CROWDED : OUTBOUND_FIRST;
	if (now == 0 || (!crowded && front->outbound_sent[class] == STREAM + UNTAKEN))
		set_capacity(front, class, min_size(wanted, front_most_rounds(class)));
}

// An empty magazine that others had may have half the rounds, lest many be made anew.
static struct magazine *fit(struct front *front, unsigned class, struct magazine *empty)
{
	unsigned capacity = front->outbound_capacity[class];

	if (empty != NULL && (empty->capacity >= capacity / 2 || magazine_change(empty, capacity, front_word(front, class))))
		return empty;
	if (empty != NULL)
		magazine_destroy(empty);
	return magazine_create(capacity, front_word(front, class));
}

static void note_full(struct front *front, unsigned class, size_t rounds)
{
	size_t sent = front->outbound_sent[class];

	sent = sent < STREAM ? min_size(sent + rounds, STREAM) : min_size(sent + 1, STREAM + UNTAKEN);
	front->outbound_sent[class] = (uint8_t)sent;
}

static bool is_stream(const struct front *front, unsigned class)
{
	return front->outbound_sent[class] >= STREAM && front->takes_back;
}

// A few objects of others are better sent home once than freed the slow way again and again; a steady stream is not, unless two threads would have
// objects in one line.
static bool is_taken_back(const struct front *front, unsigned class)
{
	return is_stream(front, class) && class_size(class) >= CACHE_LINE;
}

// Who exchanges objects with others shall have them in common with these (front_is_apart).
static void note_stream(struct front *front, const struct magazine *full)
{
	struct arena *owner = arena_of_word(page_map_word(full->round[0]));

	if (owner != NULL && !atomic_load_explicit(&owner->streams, memory_order_relaxed))
		atomic_store_explicit(&owner->streams, true, memory_order_relaxed);
	front->moves |= !front->streams;
	front->streams = true;
}

// Whether a full one is the thread's next magazine: else it would soon ask its own arena for another, and in a steady stream each arena would come to hold
// what all of them have live.
static bool becomes_previous(const struct front *front, unsigned class, const struct magazine *full)
{
	const struct magazine *loaded = front->loaded[class], *previous = front->previous[class];

	return is_taken_back(front, class) && full->rounds == full->capacity && loaded != NULL &&
	       front_rounds(front, class) <= loaded->capacity / 2u && (previous == NULL || previous->rounds == 0);
}

// Returns the one that was there, empty; NULL: none.
static struct magazine *exchange_previous(struct front *front, unsigned class, struct magazine *full)
{
	struct magazine *empty = front->previous[class];

	front_keep_previous(front, class, full);
	front->outbound_sent[class] = STREAM;
	return empty;
}

bool outbound_make_room(struct front *front, unsigned class)
{
	struct outbound *outbound = &front->outbound[class];
	struct magazine *magazine;

	if (!bound_allows_outbound(front, class))
		return false;
	front_enter(front);
	magazine = unload(outbound);
	if (magazine != NULL) {
		note_full(front, class, magazine->rounds);
		if (UNLIKELY(is_stream(front, class)))
			note_stream(front, magazine);
		magazine = becomes_previous(front, class, magazine) ? exchange_previous(front, class, magazine) :
								      outbound_send_home(front_arena(front, class), class, magazine);
	}
	grow_capacity(front, class);
	magazine = fit(front, class, magazine);
	load(outbound, magazine);
	front_leave(front);
	return magazine != NULL;
}

static bool worth_taking(const struct front *front, unsigned class)
{
	const struct outbound *outbound = &front->outbound[class];

	return is_taken_back(front, class) && outbound->magazine != NULL &&
	       rounds_in(outbound) > outbound->magazine->capacity >> LG_WORTH_TAKING;
}

struct magazine *outbound_exchange(struct front *front, unsigned class, struct magazine *empty)
{
	struct outbound *outbound = &front->outbound[class];
	struct magazine *magazine;

	if (LIKELY(!worth_taking(front, class)))
		return NULL;
	magazine = unload(outbound);
	load(outbound, empty);
	front->outbound_sent[class] = STREAM;
	magazine_clear_rest(magazine, front_word(front, class));
	return magazine;
}

static void flush_class(struct front *front, unsigned class)
{
	struct magazine *magazine = unload(&front->outbound[class]);

	if (magazine == NULL || magazine->rounds == 0) {
		set_capacity(front, class, 0);
		front->outbound_sent[class] = 0;
	}
	if (magazine != NULL)
		magazine = outbound_send_home(front_arena(front, class), class, magazine);
	if (magazine != NULL)
		magazine_destroy(magazine);
}

void outbound_flush(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++)
		if (front->outbound_capacity[class] != 0 || front->outbound[class].magazine != NULL)
			flush_class(front, class);
}

COLD void outbound_drain(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		struct magazine *magazine = unload(&front->outbound[class]);

		if (magazine == NULL)
			continue;
		rounds_go_home(front_arena(front, class), class, magazine->round, magazine->rounds, "free");
		magazine_destroy(magazine);
	}
}

size_t outbound_bytes(const struct front *front)
{
	size_t bytes = 0;

	for (unsigned class = 1; class < CLASSES; class++)
		bytes += front->outbound_capacity[class] * class_size(class);
	return bytes;
}

COLD void outbound_forget(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++)
		if (front->outbound_capacity[class] != 0)
			set_capacity(front, class, 0);
}
