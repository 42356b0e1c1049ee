// Loaded: the magazine that a class works with and the round ahead of it, loaded and unloaded, its words closed and opened.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/loaded.h"

#include "heap/door.h"
#include "util/thread.h"

// Open words and those of counted threads have rounds ahead.
static bool has_rounds_ahead(const struct front *front)
{
	return front->words != NULL && (front->top == front->words->top || front->words->door == DOOR_COUNT);
}

static bool lacks_ahead(const struct front *front, unsigned class)
{
	return class < SMALL_CLASSES && has_rounds_ahead(front) && front->words->ahead[class] == NULL;
}

// Without a round for it the class stays closed, although its magazine is loaded.
static void fetch_ahead(struct front *front, unsigned class)
{
	if (LIKELY(!lacks_ahead(front, class)))
		return;
	front->words->ahead[class] = front_pop(front, class);
	if (front->words->ahead[class] == NULL)
		front->top[class] = FRONT_CLOSED;
}

void *front_last(struct front *front, unsigned class)
{
	void *object;

	if (class >= SMALL_CLASSES || front->words == NULL)
		return NULL;
	front_enter(front);
	object = front->words->ahead[class];
	front->words->ahead[class] = NULL;
	if (has_rounds_ahead(front))
		front->top[class] = FRONT_CLOSED;
	front_leave(front);
	return object;
}

void front_load(struct front *front, unsigned class, struct magazine *magazine)
{
	front->loaded[class] = magazine;
	front->loaded_capacity[class] = magazine == NULL ? 0 : (uint8_t)magazine->capacity;
	front->top[class] = magazine == NULL ? FRONT_CLOSED : magazine->round + magazine->rounds;
	fetch_ahead(front, class);
}

void front_load_cold(struct front *front, unsigned class, struct magazine *magazine)
{
	for (char *line = (char *)magazine; line < (char *)&magazine->round[magazine->capacity]; line += CACHE_LINE)
		__builtin_prefetch(line, 1);
	front_load(front, class, magazine);
}

uint32_t front_rounds_below(const struct front *front, unsigned class, void **top)
{
	const struct magazine *magazine = front->loaded[class];
	uint32_t rounds = 0;

	if (LIKELY(top != FRONT_CLOSED && top != FRONT_CLOSED - 1))
		return (uint32_t)(top - magazine->round);
	while (rounds < magazine->capacity && magazine->round[rounds] != (void *)front_word(front, class))
		rounds++;
	if (rounds > 0 && front_has_ahead(front, class) && magazine->round[rounds - 1] == front->words->ahead[class])
		rounds--; // a handler's longjmp left a hit before its last step
	return rounds;
}

// When the word was closed from outside, the empty slots tell how far the rounds go.
uint32_t front_rounds_loaded(const struct front *front, unsigned class)
{
	return front_rounds_below(front, class, front->top[class]);
}

size_t front_rounds(const struct front *front, unsigned class)
{
	const struct magazine *loaded = front->loaded[class];
	uint32_t rounds = loaded != NULL ? front_rounds_loaded(front, class) : 0;

	return front_has_ahead(front, class) + (rounds > 0 ? rounds - magazine_gap(loaded, rounds) : (size_t)0);
}

// What another thread took (heap/sleepers.h) left a gap.
static void count_loaded(struct magazine *magazine, const struct front *front, unsigned class)
{
	uint32_t rounds = front_rounds_loaded(front, class);

	magazine->rounds = rounds;
	magazine_close_gap(magazine);
	if (UNLIKELY(magazine->rounds < rounds))
		magazine_clear_rest(magazine, front_word(front, class));
}

struct magazine *front_unload(struct front *front, unsigned class)
{
	struct magazine *magazine = front->loaded[class];

	if (magazine != NULL)
		count_loaded(magazine, front, class);
	front->loaded[class] = NULL;
	front->top[class] = FRONT_CLOSED;
	return magazine;
}

struct magazine *front_unload_all(struct front *front, unsigned class)
{
	struct magazine *magazine = front_unload(front, class);
	void *object = front_last(front, class);

	if (object != NULL && magazine != NULL && magazine->rounds < magazine->capacity)
		magazine->round[magazine->rounds++] = object;
	else if (object != NULL)
		arena_drain(front_arena(front, class), class, &object, 1, "free");
	return magazine;
}

void front_close_words(struct front *front)
{
	struct front_words *own = front->words;

	for (unsigned class = 1; class < CLASSES; class++) {
		if (front->loaded[class] != NULL)
			front->kept[class] = front->loaded[class]->round + front_rounds_loaded(front, class);
		own->top[class] = FRONT_CLOSED;
	}
	front->top = front->kept;
}

void front_open_words(struct front *front)
{
	front->top = front->words->top;
	for (unsigned class = 1; class < CLASSES; class++) {
		front->words->top[class] = front->kept[class];
		front->kept[class] = FRONT_CLOSED;
		fetch_ahead(front, class);
	}
}

void front_prepare_to_count(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++)
		front->bytes[class] = size_class_bytes[class];
	front->counted[FRONT_COUNTED_TOP - 1] = (void *)(thread_distance(words.top) - (intptr_t)front->kept);
	front->counted[FRONT_COUNTED_TOP] = FRONT_COUNTED;
}

void front_count_words(struct front *front, bool alone)
{
	for (unsigned class = 1; class < CLASSES; class++) {
		front->words->top[class] = FRONT_CLOSED;
		fetch_ahead(front, class);
		if (alone)
			front_count_word(front, class);
	}
}

void front_keep_previous(struct front *front, unsigned class, struct magazine *magazine)
{
	front->previous[class] = magazine;
	front->previous_rounds[class] = magazine == NULL ? 0 : (uint8_t)magazine->rounds;
}

void front_exchange(struct front *front, unsigned class, struct magazine *loaded)
{
	struct magazine *previous = front->previous[class];

	front_keep_previous(front, class, loaded);
	front_load(front, class, previous);
}

bool front_put(struct front *front, unsigned class, void *object)
{
	void **top = front->top[class];

	if (UNLIKELY(front->loaded[class] != NULL && lacks_ahead(front, class))) {
		front->words->ahead[class] = object;
		front->top[class] = front->loaded[class]->round + front_rounds_loaded(front, class);
		return true;
	}
	if ((uintptr_t)*top != front_word(front, class))
		return false;
	*top = object;
	front->top[class] = top + 1;
	return true;
}
