// Arena: creation, choosing one for a thread, and the way of objects between magazines and slabs.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/arena.h"

#include <stdatomic.h>

#include "base/base.h"
#include "cache/table.h"
#include "conf/options.h"
#include "guard/report.h"
#include "heap/large.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "pages/page_map.h"
#include "util/assert.h"

enum { GROWTH_SLACK = 512 * 1024, LG_GROWTH_PROPORTION = 4, LG_DEPOT_PROPORTION = 4 };

static struct {
	struct mutex lock;
	// Under lock.
	_Atomic unsigned limit; // 0: not known yet
	_Atomic unsigned cpus;  // by affinity, when the first arena was made
	// Written under lock, read by anyone.
	_Atomic unsigned created;
	struct arena *_Atomic by_id[ARENAS_MOST];
} arenas = { .lock = MUTEX_INIT(RANK_ARENAS) };

static struct arena *arena_create(unsigned id)
{
	struct arena *arena = base_alloc_pages(sizeof *arena);

	if (arena == NULL)
		return NULL;
	arena->id = id;
	arena->created_at = os_clock_ms();
	pages_init(&arena->pages, "pages");
	for (unsigned class = 1; class < SLAB_CLASSES; class++)
		bin_init(&arena->bins[class], slab_shape_for(class_size(class)), &arena->pages, (uint16_t)id,
			 (uint16_t)arena_word(id, class));
	for (unsigned class = 1; class < CLASSES; class++)
		depot_init(&arena->depots[class]);
	return arena;
}

// Four for each processor unless an option says otherwise; one on a single processor, where contention needs a preemption (2006).
static unsigned arena_limit(void)
{
	uint64_t limit;
	unsigned cpus;

	if (options.narenas != 0)
		return options.narenas;
	cpus = (unsigned)min_size(arenas.cpus, os_cpus_quota());
	if (cpus == 1)
		return 1;
	limit = (uint64_t)cpus * options.narenas_ratio >> 16;
	return limit == 0 ? 1 : limit < ARENAS_MOST ? (unsigned)limit : ARENAS_MOST;
}

static struct arena *least_used(unsigned created)
{
	struct arena *best = atomic_load_explicit(&arenas.by_id[0], memory_order_acquire);

	for (unsigned i = 1; i < created; i++) {
		struct arena *arena = atomic_load_explicit(&arenas.by_id[i], memory_order_acquire);

		if (atomic_load_explicit(&arena->threads, memory_order_relaxed) <
		    atomic_load_explicit(&best->threads, memory_order_relaxed))
			best = arena;
	}
	return best;
}

// Counting processors reads files, and a new arena is mapped: both without the lock; at most one arena too many is made
// and dropped when two threads race.
struct arena *arena_for_thread(void)
{
	unsigned created = atomic_load_explicit(&arenas.created, memory_order_acquire);

	if (created == 0)
		arenas.cpus = os_cpus_affine();
	struct arena *best = created == 0 ? NULL : least_used(created), *fresh;

	if (best != NULL && atomic_load_explicit(&best->threads, memory_order_relaxed) == 0)
		return best;
	if (created > 0 && arenas.limit == 0) {
		arenas.limit = created; // in case that counting comes back here
		arenas.limit = arena_limit();
	}
	if (created > 0 && created >= arenas.limit)
		return best;
	fresh = arena_create(created);
	mutex_lock(&arenas.lock);
	if (fresh != NULL && atomic_load_explicit(&arenas.created, memory_order_relaxed) == created) {
		atomic_store_explicit(&arenas.by_id[created], fresh, memory_order_release);
		atomic_store_explicit(&arenas.created, created + 1, memory_order_release);
		best = fresh;
	}
	mutex_unlock(&arenas.lock);
	return best != NULL ? best : arena_of(0);
}

struct arena *arena_of(unsigned id)
{
	return id < ARENAS_MOST ? atomic_load_explicit(&arenas.by_id[id], memory_order_acquire) : NULL;
}

const void *arenas_table_at(void)
{
	return arenas.by_id;
}

const void *arenas_created_at(void)
{
	return &arenas.created;
}

unsigned arenas_created(void)
{
	return atomic_load_explicit(&arenas.created, memory_order_acquire);
}

// Before the heap grows, what the depots hold beyond a sixteenth of it goes back to the slabs (libumem reaps likewise).
static bool reap_before_growth(struct arena *arena, size_t wanted)
{
	size_t held = atomic_load_explicit(&arena->depot_bytes, memory_order_relaxed);

	if (pages_dirty_bytes(&arena->pages) >= wanted ||
	    held < GROWTH_SLACK + (pages_active_bytes(&arena->pages) >> LG_GROWTH_PROPORTION))
		return false;
	return arena_reap(arena, true);
}

size_t arena_fill(struct arena *arena, unsigned class, void **rounds, size_t count)
{
	struct bin *bin;
	size_t got;

	if (class >= SLAB_CLASSES) {
		rounds[count - 1] = large_alloc(arena, class_size(class), 0, class, NULL);
		return rounds[count - 1] != NULL;
	}
	bin = &arena->bins[class];
	got = bin_fill(bin, rounds, count);
	if (got == 0 && reap_before_growth(arena, bin->shape.slab_bytes))
		got = bin_fill(bin, rounds, count);
	while (got == 0) {
		if (!bin_grow(bin))
			return 0;
		got = bin_fill(bin, rounds, count);
	}
	return got;
}

// A round that is not of the bin it came with: of another arena, as sized frees bring it, or misuse.
static void drain_stray(unsigned class, void *object, enum bin_finding finding, const char *call)
{
	struct run *run = page_map_run(object);
	size_t done;

	if (finding == BIN_NOT_HERE && run != NULL && run->bin != NULL && run->bin->word != 0) {
		unsigned real = word_class(run->bin->word);

		if (real != class)
			guard_report(call, object, "freed as another size, it is an object of %zu bytes", run->bin->shape.size);
		finding = bin_drain(run->bin, &object, 1, &done);
	}
	if (finding == BIN_NOT_HERE && run != NULL && run->bin == NULL && run->sample != 0 && run->bytes == class_size(class)) {
		large_free(object, call); // a sampled object, freed with its size
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

static void count_depot(struct arena *arena, unsigned class, size_t rounds, bool more)
{
	size_t bytes = rounds * class_size(class);

	atomic_fetch_add_explicit(&arena->depot_bytes, more ? bytes : -bytes, memory_order_relaxed);
}

bool arena_depot_is_full(const struct arena *arena, unsigned class, size_t rounds, bool scattered)
{
	size_t held = atomic_load_explicit(&arena->depot_bytes, memory_order_relaxed);
	size_t limit = options.depot_bytes / arenas_created() + (pages_active_bytes(&arena->pages) >> LG_DEPOT_PROPORTION);

	return held + rounds * class_size(class) > (scattered ? limit / 4 : limit);
}

struct magazine *arena_exchange_full(struct arena *arena, unsigned class, struct magazine *full)
{
	count_depot(arena, class, full->rounds, true);
	return depot_take_empty(&arena->depots[class], full);
}

struct magazine *arena_exchange_empty(struct arena *arena, unsigned class, struct magazine *empty)
{
	struct magazine *full = depot_take_full(&arena->depots[class], empty);

	if (full != NULL)
		count_depot(arena, class, full->rounds, false);
	return full;
}

void arena_put(struct arena *arena, unsigned class, struct magazine *magazine)
{
	count_depot(arena, class, magazine->rounds, true);
	depot_put(&arena->depots[class], magazine);
}

// Drains and destroys a chain of magazines; true when one had rounds.
static bool destroy_chain(struct arena *arena, unsigned class, struct magazine *chain)
{
	bool had_rounds = false;

	for (struct magazine *next; chain != NULL; chain = next) {
		next = chain->next;
		had_rounds |= chain->rounds > 0;
		count_depot(arena, class, chain->rounds, false);
		arena_drain(arena, class, chain->round, chain->rounds, "free");
		magazine_destroy(chain);
	}
	return had_rounds;
}

bool arena_reap(struct arena *arena, bool everything)
{
	bool reaped = false;

	for (unsigned class = 1; class < CLASSES; class++) {
		struct depot *depot = &arena->depots[class];

		if (depot->full.length > 0 || depot->empty.length > 0)
			reaped |= destroy_chain(arena, class, depot_reap(depot, everything));
		if (class < SLAB_CLASSES)
			bin_trim(&arena->bins[class], everything);
	}
	return reaped;
}

// All locks of all arenas, of the object caches and of the magazines, in the order of their ranks.
void arenas_fork_prepare(void)
{
	mutex_fork_lock(&arenas.lock);
	caches_fork_lock_table();
	caches_fork_lock_depots();
	for (unsigned i = 0; i < arenas_created(); i++)
		for (unsigned class = 1; class < CLASSES; class++)
			mutex_fork_lock(&arena_of(i)->depots[class].lock);
	for (unsigned i = 0; i < arenas_created(); i++)
		for (unsigned class = 1; class < SLAB_CLASSES; class++)
			mutex_fork_lock(&arena_of(i)->bins[class].lock);
	caches_fork_lock_bins();
	magazines_fork_lock_bins();
	for (unsigned i = 0; i < arenas_created(); i++)
		mutex_fork_lock(&arena_of(i)->pages.runs.lock);
	caches_fork_lock_pages();
	magazines_fork_lock_pages();
}

// A thread that was between a depot and its count is gone.
static void recount_depots(struct arena *arena)
{
	size_t bytes = 0;

	for (unsigned class = 1; class < CLASSES; class++)
		bytes += arena->depots[class].rounds * class_size(class);
	atomic_store(&arena->depot_bytes, bytes);
}

void arenas_fork_done(bool child)
{
	magazines_fork_done();
	caches_fork_done(child);
	for (unsigned i = 0; i < arenas_created(); i++) {
		struct arena *arena = arena_of(i);

		mutex_fork_unlock(&arena->pages.runs.lock);
		for (unsigned class = 1; class < SLAB_CLASSES; class++)
			mutex_fork_unlock(&arena->bins[class].lock);
		for (unsigned class = 1; class < CLASSES; class++)
			mutex_fork_unlock(&arena->depots[class].lock);
		if (child) {
			recount_depots(arena);
			atomic_store(&arena->threads, 0);
			atomic_store(&arena->front_bytes, 0);
			atomic_store(&arena->pages.decaying, false);
		}
	}
	mutex_fork_unlock(&arenas.lock);
}
