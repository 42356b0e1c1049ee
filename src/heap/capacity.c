// Capacity: how many rounds a front's magazines have, and what all of an arena's may come to hold.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/capacity.h"

#include "conf/options.h"
#include "heap/bound.h"
#include "heap/outbound.h"

enum {
	LEAST_CAPACITY = 2,       // rounds of any magazine
	CROWDED_CAPACITY = 6,     // of the first one of objects beyond SMALL_MOST while the fronts hold what they may
	LG_SMALL_GROWTH = 1,      // of what a new magazine may have, for objects up to SMALL_MOST
	LG_MEDIUM_GROWTH = 2,     // and beyond
	LG_BATCH_GROWTH = 2,      // the part of a fill by which the next is larger
	FRONTS_FLOOR = 1 << 20,   // bytes that an arena's fronts may hold in any case
	LG_FRONTS_PROPORTION = 2, // and of its active bytes
	FLOORS_A_PROCESSOR = 4,   // which could have as many arenas (2006)
	THREAD_FLOOR = 256 << 10, // bytes that each of many threads may hold in any case
	THREADS_FLOOR_MOST = 16 << 20, // and all of them, in all arenas
};

// Where a magazine that takes half the memory has all but an eighth of the rounds, as many as that one has: of powers of two, for the guards take slots.
static unsigned fitting(unsigned rounds)
{
	unsigned slots = rounds <= FIRST_CAPACITY ? rounds : magazine_slots(lg_floor((rounds + MAGAZINE_OVERHEAD) / 8));

	return rounds - slots <= rounds / 8 ? slots : rounds;
}

// Page runs cost more to get anew than objects of slabs: they may have more bytes in magazines.
unsigned front_most_rounds(unsigned class)
{
	size_t bytes = class < SLAB_CLASSES ? options.magazine_bytes : options.magazine_bytes * (size_t)2;
	size_t rounds = bytes / class_size(class);

	return rounds < LEAST_CAPACITY ? LEAST_CAPACITY : rounds > CAPACITY_MOST ? CAPACITY_MOST : fitting((unsigned)rounds);
}

// Of a magazine that has grown. Of medium objects the depot is visited every few operations if it holds no more than a new one. The fronts'
// share of the heap is the bound (fronts_hold_enough); fronts of processors, which are few, have none. Not inlined: it is called in two places of what every
// program runs.
__attribute__((noinline)) unsigned front_grown_rounds(unsigned class)
{
	unsigned rounds = front_most_rounds(class), lg_growth = class < SMALL_CLASSES ? LG_SMALL_GROWTH : LG_MEDIUM_GROWTH;
	unsigned grown = (unsigned)min_size(rounds << lg_growth, CAPACITY_MOST);

	return grown * size_class_bytes[class] > umem_options.thread_cache >> (LG_BOUND_PARTS + LG_MEDIUM_GROWTH - lg_growth) ? rounds : grown;
}

unsigned front_first_batch(unsigned class)
{
	uint32_t rounds = FIRST_BATCH_BYTES / size_class_bytes[class];

	return rounds < 1 ? 1 : rounds > FIRST_CAPACITY ? FIRST_CAPACITY : rounds;
}

// A quarter more: so much of what a class took from its slabs may lie in magazines that will never be used.
unsigned front_next_batch(unsigned batch, unsigned capacity)
{
	return (unsigned)min_size(batch + (batch >> LG_BATCH_GROWTH) + 1, capacity);
}

void front_count_bytes(struct front *front, size_t more)
{
	if (more != 0)
		atomic_fetch_add_explicit(&front->common->front_bytes, more, memory_order_relaxed);
}

// Of the one magazine, or loaded and previous.
static size_t class_bytes(const struct front *front, unsigned class)
{
	return (front_has_one(front, class) ? 1u : 2u) * front->capacity[class] * class_size(class);
}

void front_set_capacity(struct front *front, unsigned class, size_t rounds)
{
	size_t before = class_bytes(front, class);

	front->capacity[class] = (uint8_t)rounds;
	front_count_bytes(front, class_bytes(front, class) - before);
}

COLD void front_forget_capacities(struct front *front)
{
	for (unsigned class = 1; class < CLASSES; class++)
		if (front->capacity[class] != 0)
			front_set_capacity(front, class, 0);
	outbound_forget(front);
}

// Threads are here for which arenas could have been made that were not needed so far: these arenas' floors are theirs as well.
// Where threads are more than these floors are made for, each has its own, up to a bound (docs/decisions/0040).
static COLD size_t floor_of_many(size_t threads)
{
	size_t floors = min_size(threads * FLOORS_A_PROCESSOR, arenas_automatic_most()), sharing = arenas_sharing();

	floors = max_size(max_size(floors, FLOORS_A_PROCESSOR) / sharing, 1);
	return max_size(floors * FRONTS_FLOOR, min_size(threads * THREAD_FLOOR, THREADS_FLOOR_MOST / sharing));
}

// A program of one thread counts no processors.
static size_t fronts_floor(const struct arena *arena)
{
	size_t threads = arena_users(arena);

	return LIKELY(threads < 2) && LIKELY(!arenas_apart()) ? FRONTS_FLOOR * FLOORS_A_PROCESSOR : floor_of_many(threads);
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
		bytes += class_bytes(front, class);
	return bytes;
}

void front_make_up_for_magazines(struct front *front)
{
	static _Atomic size_t most;
	size_t bytes = magazines_bytes(), before = atomic_load_explicit(&most, memory_order_relaxed);

	if (LIKELY(bytes <= before) || !atomic_compare_exchange_strong(&most, &before, bytes))
		return;
	if (pages_dirty_bytes(&front->common->pages) > 0)
		pages_make_up(&front->common->pages, bytes - before);
}

static unsigned first_capacity(const struct front *front, unsigned class)
{
	bool few = class >= SMALL_CLASSES && fronts_hold_enough(front->common);

	return (unsigned)min_size(few ? CROWDED_CAPACITY : FIRST_CAPACITY, front_most_rounds(class));
}

void front_begin(struct front *front, unsigned class)
{
	if (front->capacity[class] == 0)
		front_set_capacity(front, class, first_capacity(front, class));
}

// A load of a slot waits for the store to the class's word before it if they are a multiple of 4 KiB apart. Who allocates and frees in turn stays
// at one slot, of a first magazine mostly (docs/decisions/0066).
static bool lies_on_word(const struct magazine *magazine, const struct front *front, unsigned class)
{
	return magazine->capacity <= FIRST_CAPACITY &&
	       ((uintptr_t)&front->top[class] - (uintptr_t)magazine) % 4096 < magazine_bytes(magazine);
}

static __attribute__((noinline)) struct magazine *take_another(struct magazine *magazine, const struct front *front, unsigned class)
{
	struct magazine *other = magazine_create(magazine->capacity, front_word(front, class));

	if (other == NULL)
		return magazine;
	magazine_destroy(magazine);
	return other;
}

struct magazine *front_new_magazine(struct front *front, unsigned class, unsigned most)
{
	struct magazine *magazine;

	front_begin(front, class);
	magazine = magazine_create((unsigned)min_size(front->capacity[class], most), front_word(front, class));
	return UNLIKELY(magazine != NULL && lies_on_word(magazine, front, class)) ? take_another(magazine, front, class) : magazine;
}

// 2001, §3.4, with misses for contention.
void front_grow_capacity(struct front *front, unsigned class)
{
	unsigned more = front->capacity[class] * 2u + MAGAZINE_OVERHEAD;

	if (!fronts_hold_enough(front->common) && !arena_slabs_are_sparse(front_arena(front, class), class))
		front_set_capacity(front, class, min_size(more, front_grown_rounds(class)));
}

void front_begin_again(struct front *front, unsigned class, struct magazine *empty)
{
	size_t rounds = max_size(FIRST_BATCH_BYTES / class_size(class), LEAST_CAPACITY);
	unsigned few = (unsigned)min_size(rounds, front_most_rounds(class));

	front_set_capacity(front, class, few);
	front->batch[class] = (uint8_t)few;
	if (empty != NULL)
		magazine_change(empty, (unsigned)min_size(empty->capacity, few), front_word(front, class));
}

struct magazine *front_grown(struct front *front, unsigned class, struct magazine *empty)
{
	if (empty == NULL || empty->capacity >= front->capacity[class] ||
	    magazine_change(empty, front->capacity[class], front_word(front, class)))
		return empty;
	magazine_destroy(empty);
	return NULL;
}

// Magazines that are exchanged again and again should be larger: an empty one that is smaller than the next is dropped.
struct magazine *front_outgrown(struct front *front, unsigned class, struct magazine *empty)
{
	if (++front->exchanges[class] % EXCHANGES_A_STEP == 0)
		front_grow_capacity(front, class);
	return front_grown(front, class, empty);
}

void front_count_again(struct front *front)
{
	atomic_fetch_add(&front->common->front_bytes, capacity_bytes(front));
	atomic_fetch_add(&front->arena->own_room, front->own_room);
}
