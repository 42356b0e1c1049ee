// Arena: the way of objects between magazines and slabs, and what is given back before the heap grows.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/arena.h"

#include <stdatomic.h>

#include "conf/options.h"
#include "guard/report.h"
#include "heap/kept.h"
#include "heap/large.h"
#include "heap/samples.h"
#include "os/clock.h"
#include "pages/page_map.h"

enum {
	DEPOT_SLACK = 512 * 1024, // bytes that are enough for depots beside a sixteenth of the heap
	LG_GROWTH_PROPORTION = 4,
	GROWTH_STEP = 32 * 1024,
	LG_GROWTH_STEP = 3,
	LG_DEPOT_PROPORTION = 4,
	LG_UNASKED_PART = 3, // of what depots may hold: one that nobody took rounds from yet
	PASSING_MS = 2, // of what comes to depots: beyond what is enough they hold as much
	SPARSE_FLOOR = 512 * 1024, // bytes that are free in a class's slabs in any case,
	LG_SPARSE_SLABS = 2,       // of its slabs, and
	LG_SPARSE_HEAP = 6,        // of the active bytes
	REAPED_AT_ONCE = 2 * 1024 * 1024, // bytes that a depot gives before the heap grows, and
	REAPED_BY_FRESH = 4,              // so many times the bytes that it grows by
};

// Drains and destroys a chain of magazines; true when one had rounds.
static bool destroy_chain(struct arena *arena, unsigned class, struct magazine *chain)
{
	bool had_rounds = false;

	for (struct magazine *next; chain != NULL; chain = next) {
		next = chain->next;
		had_rounds |= chain->rounds > 0;
		arena_drain(arena, class, chain->round, chain->rounds, "free");
		magazine_destroy(chain);
	}
	return had_rounds;
}

static size_t held_bytes(const struct arena *arena, unsigned class)
{
	return atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed) * class_size(class);
}

static unsigned class_held_most(const struct arena *arena)
{
	unsigned most = 1;

	for (unsigned class = 2; class < CLASSES; class++)
		most = held_bytes(arena, class) > held_bytes(arena, most) ? class : most;
	return most;
}

// Drains magazines, of a class until it has none, until that many bytes of objects are home: slabs become empty only when most of theirs are.
static __attribute__((noinline)) void reap_some(struct arena *arena, size_t bytes)
{
	unsigned class = class_held_most(arena), next;
	struct magazine *full;

	for (size_t done = 0; done < bytes;) {
		full = depot_take_full(&arena->depots[class], NULL, &arena->depot_rounds[class]);
		if (full != NULL) {
			done += full->rounds * class_size(class);
			full->next = NULL;
			destroy_chain(arena, class, full);
			continue;
		}
		next = class_held_most(arena);
		if (next == class || held_bytes(arena, next) == 0) // or somebody is just taking the last, and has not told
			return;
		class = next;
	}
}

static size_t growth_step(size_t active)
{
	return (active >> LG_GROWTH_STEP) + GROWTH_STEP;
}

// The heap is a step larger than when what was idle was last given back. When it shrinks that counts from there, but for a step: what is given
// back and taken again at once is no growth.
static bool has_grown(struct arena *arena)
{
	size_t active = pages_active_bytes(&arena->pages), before = atomic_load_explicit(&arena->grown_bytes, memory_order_relaxed);
	size_t most = active + growth_step(active);

	if (most < before)
		atomic_store_explicit(&arena->grown_bytes, most, memory_order_relaxed);
	return active >= before + growth_step(before);
}

bool arena_grows(struct arena *arena, unsigned class)
{
	const struct bin *bin = class < SLAB_CLASSES ? &arena->bins[class] : NULL;

	return bin != NULL && __atomic_load_n(&bin->free_buffers, __ATOMIC_RELAXED) == 0 && has_grown(arena) &&
	       pages_are_fresh(&arena->pages, bin->shape.slab_bytes);
}

bool arena_slabs_are_sparse(const struct arena *arena, unsigned class)
{
	const struct bin *bin = class < SLAB_CLASSES ? &arena->bins[class] : NULL;
	size_t free_bytes = bin == NULL ? 0 : __atomic_load_n(&bin->free_buffers, __ATOMIC_RELAXED) * bin->shape.size;

	return free_bytes > SPARSE_FLOOR && free_bytes > (bin_used(bin) * bin->shape.size + free_bytes) >> LG_SPARSE_SLABS &&
	       free_bytes > pages_active_bytes(&arena->pages) >> LG_SPARSE_HEAP;
}

static __attribute__((noinline)) bool depots_hold_much(const struct arena *arena)
{
	size_t active = pages_active_bytes(&arena->pages), held = arena_depot_bytes(arena);

	return held >= DEPOT_SLACK + ((active - min_size(active, held)) >> LG_GROWTH_PROPORTION);
}

// Of what the depots hold beyond a sixteenth of the heap several times as much as it would grow by goes back to the slabs (libumem reaps
// likewise), not all: nobody shall wait for that.
void arena_reap_before_growth(struct arena *arena, size_t wanted)
{
	bool are_scarce = pages_dirty_bytes(&arena->pages) < REAPED_AT_ONCE || pages_are_fresh(&arena->pages, wanted);

	if (are_scarce && depots_hold_much(arena))
		reap_some(arena, REAPED_AT_ONCE + wanted * REAPED_BY_FRESH);
}

// Kept runs; what little the depots hold, for a few scattered rounds may keep many slabs from emptying; and the empty slabs.
void arena_give_idle(struct arena *arena)
{
	atomic_store_explicit(&arena->grown_bytes, pages_active_bytes(&arena->pages), memory_order_relaxed);
	kept_give(arena, true);
	if (!depots_hold_much(arena))
		arena_reap(arena, true);
}

size_t arena_fill(struct arena *arena, unsigned class, void **rounds, size_t count)
{
	bool alone = arenas_automatic_made() == 1 && arena_users(arena) == 1, reaped = false;
	struct bin *bin;
	size_t got;

	if (class >= SLAB_CLASSES) {
		rounds[count - 1] = large_alloc(arena, class_size(class), 0, class, NULL);
		return rounds[count - 1] != NULL;
	}
	bin = &arena->bins[class];
	// Between objects that lie apart others find place: a second thread's would share the lines.
	while ((got = alone ? bin_fill_apart(bin, rounds, count) : bin_fill(bin, rounds, count)) == 0) {
		if (reaped && !bin_grow(bin))
			return 0;
		if (!reaped)
			arena_reap_before_growth(arena, bin->shape.slab_bytes);
		reaped = true;
	}
	return got;
}

// A round that is not of the bin it came with: of another arena, as sized frees bring it, or misuse.
static COLD void drain_stray(unsigned class, void *object, enum bin_finding finding, const char *call)
{
	struct run *run = page_map_run(object);
	size_t done;

	if (finding == BIN_NOT_HERE && samples_has(run, page_map_word(object)) && samples_size(run, object) == class_size(class)) {
		samples_free(run, object, call); // freed with its size; it may have no tally
		return;
	}
	if (finding == BIN_NOT_HERE && run != NULL && run->bin != NULL && word_class(run->bin->word) != 0) {
		unsigned real = word_class(run->bin->word);

		if (real < class) // one that is larger than it was said to be was large enough for whoever had it meanwhile
			guard_report(call, object, "freed as another size, it is an object of %zu bytes", run->bin->shape.size);
		finding = bin_drain(run->bin, &object, 1, &done);
	}
	if (finding == BIN_NOT_HERE && run != NULL && run->bin == NULL && run->size_class == 0 && class < SLAB_CLASSES &&
	    run->bytes == class_size(class)) {
		large_free(object, call); // a sampled object, freed with its size; it may have no tally
		return;
	}
	if (finding == BIN_FREE_ALREADY)
		guard_report(call, object, "double free of an object of %zu bytes", class_size(class));
	if (finding == BIN_NOT_A_START)
		guard_report(call, object, "not the start of an object; the objects there have %zu bytes", class_size(class));
	if (finding == BIN_NOT_HERE)
		guard_report(call, object, "not an object of this heap (freed as one of %zu bytes)", class_size(class));
}

void arena_drain(struct arena *arena, unsigned class, void *const *rounds, size_t count, const char *call)
{
	while (count > 0) {
		enum bin_finding finding;
		size_t done;

		if (class >= SLAB_CLASSES) {
			if (rounds[0] != NULL)
				large_free(rounds[0], call);
			done = 1;
		} else {
			finding = bin_drain(&arena->bins[class], rounds, count, &done);
			if (finding != BIN_OK)
				drain_stray(class, rounds[done++], finding, call);
		}
		rounds += done;
		count -= done;
	}
}

__attribute__((noinline)) size_t arena_depot_bytes(const struct arena *arena)
{
	size_t bytes = 0;

#pragma GCC unroll 8 // asked at each large free
	for (unsigned class = 1; class < CLASSES; class++)
		bytes += atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed) * size_class_bytes[class];
	return bytes;
}

static size_t depot_rounds(const struct arena *arena)
{
	size_t rounds = 0;

	for (unsigned class = 1; class < CLASSES; class++)
		rounds += atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed);
	return rounds;
}

// Of what the depots of all arenas may hold. Half of it is the common arena's, of which few threads that are apart take nothing.
static size_t depot_share(const struct arena *arena)
{
	unsigned made = arenas_automatic_made();

	if (made == 1 || arenas_apart())
		return options.depot_bytes / made;
	return arena->id == 0 ? options.depot_bytes / 2 : options.depot_bytes / 2 / made;
}

// Bytes that came within PASSING_MS, of late, to depots that had enough, taken in or not. An estimate: threads that come at once may lose some.
static size_t passing(struct arena *arena, size_t bytes)
{
	uint64_t now = os_clock_ms(), since = atomic_load_explicit(&arena->passed_since, memory_order_relaxed);
	size_t passed = atomic_load_explicit(&arena->passed, memory_order_relaxed) + bytes;

	if ((int64_t)(now - since) > 0) {
		atomic_store_explicit(&arena->passing, passed * PASSING_MS / (now - since), memory_order_relaxed);
		atomic_store_explicit(&arena->passed_since, now, memory_order_relaxed);
		passed = 0;
	}
	atomic_store_explicit(&arena->passed, passed, memory_order_relaxed);
	return atomic_load_explicit(&arena->passing, memory_order_relaxed);
}

// Of rounds that lie together: in their slabs they give pages back, and are fetched again in little time. More than is enough is worth its
// memory where as much comes every few milliseconds (docs/decisions/0063).
static __attribute__((noinline)) size_t worth_holding(struct arena *arena, size_t share, size_t bytes)
{
	return share <= DEPOT_SLACK ? share : min_size(share, DEPOT_SLACK + passing(arena, bytes));
}

// Scattered rounds give nothing back in their slabs, and take long to get there: they count as what their magazines take. What a class has that
// never came to its depot for rounds nobody may want: of that it holds less.
bool arena_depot_is_full(struct arena *arena, unsigned class, size_t rounds, bool scattered)
{
	size_t active = pages_active_bytes(&arena->pages), part = active >> LG_DEPOT_PROPORTION, share = depot_share(arena);
	size_t bytes = rounds * class_size(class), limit = scattered ? share : min_size(share, DEPOT_SLACK);
	size_t held = (atomic_load_explicit(&arena->depot_rounds[class], memory_order_relaxed) + rounds) * (scattered ? sizeof(void *) : class_size(class));

	if (arena_slabs_are_sparse(arena, class))
		return true;
	if (!scattered && __atomic_load_n(&arena->depots[class].takes, __ATOMIC_RELAXED) == 0)
		held <<= LG_UNASKED_PART;
	if (held <= limit + part && active + bytes <= limit) // what depots hold is a part of what is active: no need to add it up
		return false;
	held = max_size(held, scattered ? (depot_rounds(arena) + rounds) * sizeof(void *) : arena_depot_bytes(arena) + bytes);
	return held > limit + part && (scattered || held > worth_holding(arena, share, bytes) + part);
}

struct magazine *arena_exchange_full(struct arena *arena, unsigned class, struct magazine *full)
{
	return depot_take_empty(&arena->depots[class], full, &arena->depot_rounds[class]);
}

struct magazine *arena_exchange_empty(struct arena *arena, unsigned class, struct magazine *empty)
{
	return depot_take_full(&arena->depots[class], empty, &arena->depot_rounds[class]);
}

void arena_put(struct arena *arena, unsigned class, struct magazine *magazine)
{
	depot_put(&arena->depots[class], magazine, &arena->depot_rounds[class]);
}

COLD bool arena_reap(struct arena *arena, bool everything)
{
	bool reaped = false;

	for (unsigned class = 1; class < CLASSES; class++) {
		struct depot *depot = &arena->depots[class];

		if (depot->full.length > 0 || depot->empty.length > 0)
			reaped |= destroy_chain(arena, class, depot_reap(depot, everything, &arena->depot_rounds[class]));
		if (class < SLAB_CLASSES)
			bin_trim(&arena->bins[class], everything);
	}
	if (UNLIKELY(arena->samples != NULL))
		samples_trim(arena->samples, everything);
	return reaped;
}
