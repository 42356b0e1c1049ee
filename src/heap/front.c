// Front: making one, reloading magazines, sending objects home, giving everything back.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/front.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "conf/options.h"
#include "heap/bound.h"
#include "heap/cpu_front.h"
#include "heap/door.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/outbound.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/rseq.h"
#include "os/thread.h"
#include "pages/page_map.h"
#include "util/assert.h"
#include "watch/trace.h"

enum {
	LEAST_CAPACITY = 2,       // rounds of any magazine
	FIRST_CAPACITY = 12,      // rounds of the first magazine of a class
	CROWDED_CAPACITY = 6,     // the same while the fronts hold what they may
	MOST_CAPACITY = 252,      // rounds
	MEDIUM_GROWTH = 4,        // times the rounds of a new magazine of objects beyond SMALL_MOST
	FIRST_BATCH_BYTES = 2048, // of the first fill of a class
	TIDY_MS = 500,            // a class not used for this long is given to the depot
	MISSES_A_LOOK = 16,       // between looks at the clock
	SAMPLES = 8,              // rounds looked at of a full magazine
	EXCHANGES_A_STEP = 8,     // of loaded and previous until the next magazine is larger
	FRONTS_FLOOR = 1024 * 1024, // bytes that an arena's fronts may hold in any case
	LG_FRONTS_PROPORTION = 2,  // and of its active bytes
	FREES_OF_A_RUN = 3,        // visits to the depot to free, none to allocate, that tell that a heap is being taken down
	LEAST_TAKEN_DOWN = 4 * 1024 * 1024, // bytes of a heap of which it matters
	LEAST_AFTER_A_RUN = 8,     // rounds of a magazine that is smaller then
	LG_LEFT_PROPORTION = 3,    // and of the objects that are left
};

// Closed one slot further down, too: a thread that takes a round while its word is closed from outside counts down what it finds.
void *const front_closed_magazine[3] = { NULL, NULL, MAGAZINE_FULL };
#define CLOSED FRONT_CLOSED

__thread struct front_words words = { .top = { [0 ... CLASSES - 1] = (void **)&front_closed_magazine[2] } };

// Page runs cost more to get anew than objects of slabs: they may have more bytes in magazines.
unsigned front_most_rounds(unsigned class)
{
	size_t bytes = class < SLAB_CLASSES ? options.magazine_bytes : options.magazine_bytes * (size_t)2;
	size_t rounds = bytes / class_size(class);

	return rounds < LEAST_CAPACITY ? LEAST_CAPACITY : rounds > MOST_CAPACITY ? MOST_CAPACITY : (unsigned)rounds;
}

// Of a magazine that has grown: of medium objects the depot is visited every few operations if it holds no more than a new one. The fronts'
// share of the heap is the bound (fronts_hold_enough).
unsigned front_grown_rounds(unsigned class)
{
	unsigned rounds = front_most_rounds(class), grown = (unsigned)min_size(rounds * MEDIUM_GROWTH, MOST_CAPACITY);

	return class_size(class) <= SMALL_MOST || grown * class_size(class) > umem_options.thread_cache >> LG_BOUND_PARTS ? rounds : grown;
}

unsigned front_first_batch(unsigned class)
{
	size_t rounds = FIRST_BATCH_BYTES / class_size(class);

	return rounds < 1 ? 1 : rounds > FIRST_CAPACITY ? FIRST_CAPACITY : (unsigned)rounds;
}

void front_count_bytes(struct front *front, size_t more)
{
	if (more != 0)
		atomic_fetch_add_explicit(&front->arena->front_bytes, more, memory_order_relaxed);
}

static void set_capacity(struct front *front, unsigned class, size_t rounds)
{
	front_count_bytes(front, (rounds - front->capacity[class]) * 2 * class_size(class));
	front->capacity[class] = (uint8_t)rounds;
}

static void forget_capacities(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++)
		set_capacity(front, class, 0);
	outbound_forget(front);
}

// A thread has magazines of its own although those of processors serve: when the C library could not register it, and when
// the program bound it to an arena.
static void choose_magazines(struct front *front)
{
	if (cpu_nowhere == NULL)
		return;
	if (front->arena->is_explicit || rseq_number() < 0)
		front->door_wanted &= (uint8_t)~DOOR_CPU;
	else
		front->door_wanted |= DOOR_CPU;
	if (front == words.front)
		door_obey(front);
}

void front_move(struct front *front, struct arena *arena)
{
	front_enter(front);
	if (front->arena != NULL)
		forget_capacities(front);
	front->arena = arena;
	front->word = arena_word(arena->id, 0);
	front->takes_back = front->words != NULL && !arena->is_explicit;
	memset(front->homes, 0, sizeof front->homes);
	if (front->words != NULL) {
		front->words->word = front->word;
		for (unsigned class = 1; class < SMALL_CLASSES; class++)
			front->words->empty[class] = front->word + class;
		choose_magazines(front);
	}
	front_leave(front);
}

// Its tops are its own, and closed.
struct front *front_create_cache(struct arena *arena)
{
	struct front *front = base_alloc(sizeof *front);

	if (front == NULL)
		return NULL;
	memset(front, 0, sizeof *front);
	front_move(front, arena);
	for (unsigned class = 1; class < CLASSES; class++)
		front->batch[class] = (uint8_t)front_first_batch(class);
	front->tidied_at = os_clock_ms();
	for (unsigned class = 0; class < CLASSES; class++)
		front->kept[class] = front->outbound[class].top = CLOSED;
	front->top = front->kept;
	return front;
}

static struct arena *arena_for_front(void)
{
	return cpu_nowhere != NULL ? cpu_front_arena() : arena_for_thread();
}

// Without a hook at the thread's end there is no front: its words would be written to when the thread is long gone.
static struct front *front_create(void)
{
	struct arena *arena = heap_ready() && !words.ended ? arena_for_front() : NULL;
	struct front *front = arena == NULL ? NULL : front_create_cache(arena);

	if (front == NULL)
		return NULL;
	atomic_fetch_add_explicit(&arena->threads, 1, memory_order_relaxed);
	front->words = &words;
	front->top = words.top;
	front_move(front, arena);
	fronts_join(front);
	choose_magazines(front);
	words.front = front;
	if (!os_thread_exit_value(OS_THREAD_END_HEAP, front))
		front_end(front);
	return words.front;
}

struct front *front_get(void)
{
	struct front *front = LIKELY(words.front != NULL) ? words.front : front_create();

	if (LIKELY(front != NULL))
		door_obey(front);
	return front;
}

static bool words_are_open(const struct front *front)
{
	return front->words != NULL && front->top == front->words->top;
}

static bool lacks_ahead(const struct front *front, unsigned class)
{
	return class < SMALL_CLASSES && words_are_open(front) && front->words->ahead[class] == NULL;
}

// Without a round for it the class stays closed, although its magazine is loaded.
static void fetch_ahead(struct front *front, unsigned class)
{
	if (LIKELY(!lacks_ahead(front, class)))
		return;
	front->words->ahead[class] = front_pop(front, class);
	if (front->words->ahead[class] == NULL)
		front->top[class] = CLOSED;
}

void *front_last(struct front *front, unsigned class)
{
	void *object;

	if (class >= SMALL_CLASSES || front->words == NULL)
		return NULL;
	front_enter(front);
	object = front->words->ahead[class];
	front->words->ahead[class] = NULL;
	if (words_are_open(front))
		front->top[class] = CLOSED;
	front_leave(front);
	return object;
}

static void load(struct front *front, unsigned class, struct magazine *magazine)
{
	front->loaded[class] = magazine;
	front->loaded_capacity[class] = magazine == NULL ? 0 : (uint8_t)magazine->capacity;
	front->top[class] = magazine == NULL ? CLOSED : magazine->round + magazine->rounds;
	fetch_ahead(front, class);
}

// A magazine that comes from the depot was touched long ago: its lines are asked for all at once.
static void load_cold(struct front *front, unsigned class, struct magazine *magazine)
{
	for (char *line = (char *)magazine; line < (char *)&magazine->round[magazine->capacity]; line += CACHE_LINE)
		__builtin_prefetch(line, 1);
	load(front, class, magazine);
}

uint32_t front_rounds_below(const struct front *front, unsigned class, void **top)
{
	const struct magazine *magazine = front->loaded[class];
	uint32_t rounds = 0;

	if (LIKELY(top != CLOSED && top != CLOSED - 1))
		return (uint32_t)(top - magazine->round);
	while (rounds < magazine->capacity && magazine->round[rounds] != (void *)(front->word | class))
		rounds++;
	if (rounds > 0 && front_has_ahead(front, class) && magazine->round[rounds - 1] == front->words->ahead[class])
		rounds--; // a handler's longjmp left a hit before its last step
	return rounds;
}

// When the word was closed from outside, the empty slots tell how far the rounds go.
static uint32_t rounds_loaded(const struct front *front, unsigned class)
{
	return front_rounds_below(front, class, front->top[class]);
}

size_t front_rounds(const struct front *front, unsigned class)
{
	const struct magazine *loaded = front->loaded[class];
	uint32_t rounds = loaded != NULL ? rounds_loaded(front, class) : 0;

	return front_has_ahead(front, class) + (rounds > 0 ? rounds - magazine_gap(loaded, rounds) : (size_t)0);
}

// What another thread took (heap/sleepers.h) left a gap.
static void count_loaded(struct magazine *magazine, const struct front *front, unsigned class)
{
	uint32_t rounds = rounds_loaded(front, class);

	magazine->rounds = rounds;
	magazine_close_gap(magazine);
	if (UNLIKELY(magazine->rounds < rounds))
		magazine_clear_rest(magazine, front->word | class);
}

// The loaded magazine, its rounds counted; the class is closed.
static struct magazine *unload(struct front *front, unsigned class)
{
	struct magazine *magazine = front->loaded[class];

	if (magazine != NULL)
		count_loaded(magazine, front, class);
	front->loaded[class] = NULL;
	front->top[class] = CLOSED;
	return magazine;
}

// With the round fetched ahead, which goes into its slab when the magazine has no room for it.
static struct magazine *unload_all(struct front *front, unsigned class)
{
	struct magazine *magazine = unload(front, class);
	void *object = front_last(front, class);

	if (object != NULL && magazine != NULL && magazine->rounds < magazine->capacity)
		magazine->round[magazine->rounds++] = object;
	else if (object != NULL)
		arena_drain(front->arena, class, &object, 1, "free");
	return magazine;
}

void front_close_words(struct front *front)
{
	struct front_words *own = front->words;

	for (unsigned class = 1; class < CLASSES; class++) {
		if (front->loaded[class] != NULL)
			front->kept[class] = front->loaded[class]->round + rounds_loaded(front, class);
		own->top[class] = CLOSED;
	}
	front->top = front->kept;
}

void front_open_words(struct front *front)
{
	front->top = front->words->top;
	for (unsigned class = 1; class < CLASSES; class++) {
		front->words->top[class] = front->kept[class];
		front->kept[class] = CLOSED;
		fetch_ahead(front, class);
	}
}

// Objects that nobody has touched lately are on their way to the cache before the program writes to them.
static void prefetch_objects(const struct magazine *magazine)
{
	for (uint32_t i = magazine->rounds; i-- > 0;)
		__builtin_prefetch(magazine->round[i], 1);
}

static void keep_previous(struct front *front, unsigned class, struct magazine *magazine)
{
	front->previous[class] = magazine;
	front->previous_rounds[class] = magazine == NULL ? 0 : (uint8_t)magazine->rounds;
}

static void exchange(struct front *front, unsigned class, struct magazine *loaded)
{
	struct magazine *previous = front->previous[class];

	keep_previous(front, class, loaded);
	load(front, class, previous);
}

// Threads are here for which arenas could have been made that were not needed so far: these arenas' floors are theirs as well. A program of
// one thread counts no processors.
static size_t fronts_floor(const struct arena *arena)
{
	size_t threads = atomic_load_explicit(&arena->threads, memory_order_relaxed);

	return threads < 2 ? FRONTS_FLOOR : FRONTS_FLOOR * max_size(min_size(threads, arenas_automatic() / arenas_end()), 1);
}

// What the magazines of an arena's fronts may come to hold, loaded and previous, stays below a quarter of its active bytes
// plus a floor: beyond that none grows and new ones are small, so that many threads do not hold more than the program does.
bool fronts_hold_enough(const struct arena *arena)
{
	return atomic_load_explicit(&arena->front_bytes, memory_order_relaxed) >
	       fronts_floor(arena) + (pages_active_bytes(&arena->pages) >> LG_FRONTS_PROPORTION);
}

static size_t capacity_bytes(const struct front *front)
{
	size_t bytes = outbound_bytes(front);

	for (unsigned class = 1; class < CLASSES; class++)
		bytes += front->capacity[class] * 2 * class_size(class);
	return bytes;
}

// A heap of which much is freed, and lies in magazines then, shall not be larger for that: when these take more than ever that is
// made up for. Two threads may do so at once.
static void make_up_for_magazines(struct front *front)
{
	static _Atomic size_t most;
	size_t bytes = magazines_bytes(), before = atomic_load_explicit(&most, memory_order_relaxed);

	if (LIKELY(bytes <= before))
		return;
	atomic_store_explicit(&most, bytes, memory_order_relaxed);
	if (pages_dirty_bytes(&front->arena->pages) > 0)
		pages_make_up(&front->arena->pages, bytes - before);
}

static struct magazine *new_magazine(struct front *front, unsigned class)
{
	struct magazine *magazine;

	if (front->capacity[class] == 0)
		set_capacity(front, class, min_size(fronts_hold_enough(front->arena) ? CROWDED_CAPACITY : FIRST_CAPACITY,
						    front_most_rounds(class)));
	magazine = magazine_create(front->capacity[class], arena_word(front->arena->id, class));
	make_up_for_magazines(front);
	return magazine;
}

// The class has come as far as the depot: its next magazine may be larger (2001, §3.4, with misses for contention).
static void grow_capacity(struct front *front, unsigned class)
{
	unsigned more = front->capacity[class] * 2u + MAGAZINE_OVERHEAD;

	if (!fronts_hold_enough(front->arena))
		set_capacity(front, class, min_size(more, front_grown_rounds(class)));
}

// An empty magazine made as large as the next one shall be; NULL: it has not that many slots, and is gone.
static struct magazine *grown(struct front *front, unsigned class, struct magazine *empty)
{
	if (empty == NULL || empty->capacity >= front->capacity[class] ||
	    magazine_change(empty, front->capacity[class], front->word | class))
		return empty;
	magazine_destroy(empty);
	return NULL;
}

// Magazines that are exchanged again and again should be larger: an empty one that is smaller than the next is dropped.
static struct magazine *outgrown(struct front *front, unsigned class, struct magazine *empty)
{
	if (++front->exchanges[class] % EXCHANGES_A_STEP == 0)
		grow_capacity(front, class);
	return grown(front, class, empty);
}

static void give_previous(struct front *front, unsigned class)
{
	struct magazine *previous = front->previous[class];

	keep_previous(front, class, NULL);
	front_put_away(front->arena, class, previous);
}

static void give_loaded(struct front *front, unsigned class)
{
	struct magazine *loaded = unload_all(front, class);

	front->batch[class] = (uint8_t)front_first_batch(class);
	front_put_away(front->arena, class, loaded);
}

// Everything goes, of whatever class, before the heap takes fresh pages: what is in use comes back from the slabs that it went to.
static void give_all(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++)
		if (front->loaded[class] != NULL) {
			give_previous(front, class);
			give_loaded(front, class);
		}
}

static bool fill(struct front *front, unsigned class, struct magazine *magazine)
{
	size_t wanted = min_size(front->batch[class], magazine->capacity);
	size_t got;

	if (UNLIKELY(arena_grows(front->arena, class))) {
		give_all(front);
		arena_give_idle(front->arena);
	}
	got = arena_fill(front->arena, class, magazine->round, wanted);
	if (got == 0) {
		magazine_clear(magazine, front->word | class);
		load(front, class, magazine);
		return false;
	}
	if (got < wanted) {
		memmove(magazine->round, magazine->round + wanted - got, got * sizeof(void *));
		for (size_t i = got; i < wanted; i++)
			magazine->round[i] = (void *)(front->word | class);
	}
	magazine->rounds = (uint32_t)got;
	prefetch_objects(magazine);
	front->batch[class] = (uint8_t)min_size(front->batch[class] * 2u, magazine->capacity);
	load(front, class, magazine);
	return true;
}

// A sized free of NULL puts NULL on top, which looks like the guard: here it is taken off again.
static void drop_null_rounds(struct magazine *loaded, uintptr_t word)
{
	while (loaded != NULL && loaded->rounds > 0 && loaded->round[loaded->rounds - 1] == NULL)
		loaded->round[--loaded->rounds] = (void *)word;
}

// The alloc side of Figure 3.1b, with fills in batches.
static bool refill(struct front *front, unsigned class)
{
	struct magazine *loaded, *full;
	enum reload reload;

	loaded = unload(front, class);
	drop_null_rounds(loaded, front->word | class);
	reload = magazine_with_rounds(loaded, front->previous[class]);
	if (reload == RELOAD_LOADED) {
		load(front, class, loaded);
		return true;
	}
	if (reload == RELOAD_PREVIOUS) {
		exchange(front, class, outgrown(front, class, loaded));
		return true;
	}
	front->frees[class] = 0;
	full = outbound_exchange(front, class, loaded);
	if (full != NULL) {
		load(front, class, full);
		return true;
	}
	full = arena_exchange_empty(front->arena, class, front->previous[class]);
	if (full != NULL) {
		keep_previous(front, class, loaded);
		load_cold(front, class, full);
		prefetch_objects(full);
		return true;
	}
	if (loaded == NULL ||
	    (loaded->capacity < front->capacity[class] && !magazine_change(loaded, front->capacity[class], front->word | class))) {
		struct magazine *fresh = new_magazine(front, class);

		grow_capacity(front, class);
		if (fresh != NULL && loaded != NULL)
			magazine_destroy(loaded);
		loaded = fresh != NULL ? fresh : loaded;
	}
	return loaded != NULL && fill(front, class, loaded);
}

bool front_refill(struct front *front, unsigned class)
{
	bool done;

	front_note_miss(front);
	if (UNLIKELY(class > size_class(options.tcache_max)) || !bound_allows(front, class))
		return false;
	front_enter(front);
	done = refill(front, class);
	front_leave(front);
	return done;
}

// Sized frees do not look at the page map, so a magazine may hold what does not belong. A few rounds tell whether it does.
static bool looks_pure(const struct magazine *full, uintptr_t word)
{
	uint32_t step = full->rounds / SAMPLES + 1;

	for (uint32_t i = 0; i < full->rounds; i += step)
		if (page_map_word(full->round[i]) != word)
			return false;
	return true;
}

static void drain(struct arena *arena, unsigned class, struct magazine *magazine)
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
	drain(front->arena, class, loaded);
	magazine_clear(loaded, front->word | class);
	load(front, class, loaded);
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
static unsigned rounds_for_rest(const struct front *front, unsigned class, const struct magazine *loaded)
{
	const struct arena *arena = front->arena;
	size_t free_rounds = atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed) + loaded->rounds;
	size_t used = bin_used(&arena->bins[class]), left = used > free_rounds ? (used - free_rounds) >> LG_LEFT_PROPORTION : 0;

	return (unsigned)max_size(LEAST_AFTER_A_RUN, left);
}

// What is loaded next, out of the empty magazine that the depot gave, if any. NULL: no memory.
static struct magazine *next_magazine(struct front *front, unsigned class, const struct magazine *loaded, struct magazine *empty)
{
	bool ends = is_run_of_frees(front, class) && pages_active_bytes(&front->arena->pages) >= LEAST_TAKEN_DOWN &&
		    front_is_scattered(front->arena, class, loaded);
	unsigned rest = ends ? rounds_for_rest(front, class, loaded) : MOST_CAPACITY;

	if (!ends)
		empty = grown(front, class, empty);
	if (empty == NULL)
		empty = new_magazine(front, class);
	if (!ends)
		grow_capacity(front, class);
	if (empty != NULL && rest < empty->capacity)
		magazine_change(empty, rest, front->word | class);
	return empty;
}

// The free side of Figure 3.1b.
static bool make_room(struct front *front, unsigned class)
{
	struct magazine *loaded, *previous, *empty;
	enum reload reload;

	loaded = unload(front, class);
	previous = front->previous[class];
	reload = magazine_with_room(loaded, previous);
	if (reload == RELOAD_LOADED) { // looking around has made room, or a handler's longjmp out of malloc left the slot as it was
		loaded->round[loaded->rounds] = (void *)(front->word | class);
		load(front, class, loaded);
		return true;
	}
	if (reload == RELOAD_PREVIOUS) {
		exchange(front, class, loaded);
		return true;
	}
	if (loaded == NULL || previous == NULL) {
		empty = new_magazine(front, class);
		if (empty == NULL)
			return empty_in_place(front, class, loaded);
		if (loaded != NULL)
			keep_previous(front, class, loaded);
		load(front, class, empty);
		return true;
	}
	if (arena_depot_is_full(front->arena, class, previous->rounds, front_is_scattered(front->arena, class, previous))) {
		drain(front->arena, class, previous);
		magazine_clear(previous, front->word | class);
		empty = previous;
	} else {
		verify(front->arena, class, previous);
		empty = arena_exchange_full(front->arena, class, previous);
	}
	empty = next_magazine(front, class, loaded, empty);
	if (empty == NULL) {
		keep_previous(front, class, NULL); // it is in the depot
		return empty_in_place(front, class, loaded);
	}
	keep_previous(front, class, loaded);
	load_cold(front, class, empty);
	return true;
}

bool front_make_room(struct front *front, unsigned class)
{
	bool done;

	front_note_miss(front);
	if (UNLIKELY(class > size_class(options.tcache_max)) || !bound_allows(front, class))
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
		drain(arena, class, magazine);
		magazine_destroy(magazine);
	}
}

void front_send(struct front *front, uintptr_t word, void *object)
{
	COUNT_SERVES(COUNT_FREE_FOREIGN);
	struct arena *owner = arena_of((unsigned)(word >> 8) - 1);

	if (UNLIKELY(owner->is_explicit)) { // at home at once, lest it be on its way when the arena is reset
		arena_drain(owner, word_class(word), &object, 1, "free");
		return;
	}
	front_note_miss(front);
	front->homes[word >> 14] |= 1ull << (word >> 8 & 63);
	while (!front_send_at_once(front, word, object))
		if (!outbound_make_room(front, word_class(word))) {
			arena_drain(owner, word_class(word), &object, 1, "free");
			return;
		}
}

void front_flush(struct front *front)
{
	front_enter(front);
	for (unsigned class = 1; class < CLASSES; class++) {
		struct magazine *previous = front->previous[class];

		keep_previous(front, class, NULL);
		front_put_away(front->arena, class, unload_all(front, class));
		front_put_away(front->arena, class, previous);
	}
	outbound_flush(front);
	front_leave(front);
}

// False: there is no room.
static bool put(struct front *front, unsigned class, void *object)
{
	void **top = front->top[class];

	if (UNLIKELY(front->loaded[class] != NULL && lacks_ahead(front, class))) {
		front->words->ahead[class] = object;
		front->top[class] = front->loaded[class]->round + rounds_loaded(front, class);
		return true;
	}
	if ((uintptr_t)*top != (front->word | class))
		return false;
	*top = object;
	front->top[class] = top + 1;
	return true;
}

void front_push(struct front *front, unsigned class, void *object)
{
	while (!put(front, class, object))
		if (!front_make_room(front, class)) {
			arena_drain(front->arena, class, &object, 1, "free");
			return;
		}
}

void front_drain(struct front *front)
{
	front_enter(front);
	for (unsigned class = 1; class < CLASSES; class++) {
		struct magazine *both[2] = { front->previous[class], unload_all(front, class) };

		keep_previous(front, class, NULL);
		for (int i = 0; i < 2; i++)
			if (both[i] != NULL) {
				drain(front->arena, class, both[i]);
				magazine_destroy(both[i]);
			}
	}
	front_leave(front);
}

// Gives away what was not used since the last time: first the previous magazine, then the loaded one (2011, "garbage
// collection … exponential decay").
static void front_tidy(struct front *front)
{
	front_enter(front);
	for (unsigned class = 1; class < CLASSES; class++) {
		if (front->loaded[class] != NULL && front->top[class] == front->seen[class]) {
			if (front->previous[class] != NULL)
				give_previous(front, class);
			else {
				give_loaded(front, class);
				set_capacity(front, class, 0);
			}
			front->batch[class] = (uint8_t)front_first_batch(class);
		}
		front->seen[class] = front->top[class];
	}
	outbound_flush(front);
	front_leave(front);
}

void front_note_miss(struct front *front)
{
	if (++front->misses % MISSES_A_LOOK != 0)
		return;
	uint64_t now = os_clock_ms();

	if ((int64_t)(now - front->tidied_at) >= TIDY_MS) {
		front->tidied_at = now;
		front_tidy(front);
	}
	reclaim_look(front->arena, now);
}

// The hook at a thread's end.
void front_end(void *value)
{
	struct front *front = value;
	struct arena *arena;

	if (words.front != front)
		return;
	arena = front->arena;
	front_enter(front);
	front_flush(front);
	forget_capacities(front);
	front_close_words(front);
	trace_thread_end(&front->tracer);
	profile_thread_end(&front->profile);
	words.ended = true;
	words.door = 0;
	words.way = 0;
	words.front = NULL;
	fronts_leave(front);
	arena_unbind(arena);
	base_free(front, sizeof *front);
	reclaim_expect(arena, 0); // may start a thread, whose memory then comes from slabs
}

void front_destroy_cache(struct front *front)
{
	front_flush(front);
	forget_capacities(front);
	base_free(front, sizeof *front);
}

void front_count_again(struct front *front)
{
	atomic_fetch_add(&front->arena->front_bytes, capacity_bytes(front));
}
