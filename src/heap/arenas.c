// The table of arenas: making them, choosing one for a thread, who is in them, and fork.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdatomic.h>

#include "base/base.h"
#include "cache/table.h"
#include "conf/options.h"
#include "heap/arena.h"
#include "heap/kept.h"
#include "heap/samples.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/mutex_figures.h"
#include "os/pages.h"
#include "pages/sources.h"
#include "vmag/format.h"

enum {
	WAITS_FOR_AN_ARENA = 64,
	WAITS_TO_PART = 64, // for locks, of all threads,
	PART_WITHIN_MS = 100, // in that time
};

static struct {
	struct mutex lock;
	// Written by anyone, to what all find.
	_Atomic unsigned limit; // of automatic arenas; 0: not known yet
	_Atomic unsigned cpus;  // available: by affinity and quota; 0: not known yet
	_Atomic uint64_t waits_before; // mutex_waits_ever, when the last arena beyond one for each processor was made
	_Atomic uint64_t looked_at, waits_then; // mutex_waits_ever at that time, ms
	_Atomic bool apart;
	// Under lock.
	unsigned destroyed_count;
	uint8_t destroyed[ARENAS_MOST]; // numbers to be used again, the last first
	// Written under lock, read by anyone.
	_Atomic unsigned automatic; // ones that were made
	_Atomic unsigned end;       // no number from here on was ever used
	_Atomic unsigned explicit;  // numbers given to explicit arenas
	_Atomic unsigned live;      // those that were not destroyed
	struct arena *_Atomic by_id[ARENAS_MOST];
	// Constant from before the first arena on.
	struct extent_hooks_s *source; // of automatic arenas
} arenas = { .lock = MUTEX_INIT(RANK_ARENAS) };

void arenas_set_source(struct extent_hooks_s *hooks)
{
	if (hooks != NULL)
		source_of_heap(hooks);
	arenas.source = hooks;
}

static COLD struct arena *arena_create(unsigned id, bool is_explicit)
{
	struct arena *arena = base_alloc_pages(sizeof *arena);

	if (arena == NULL)
		return NULL;
	arena->id = id;
	arena->created_at = os_clock_ms();
	arena->is_explicit = is_explicit;
	pages_init(&arena->pages, "pages");
	arena->pages.extents.arena = id;
	if (!is_explicit && arenas.source != NULL)
		extents_set_hooks(&arena->pages.extents, arenas.source);
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

	if (options.narenas != 0)
		return options.narenas;
	arenas.cpus = (unsigned)min_size(arenas.cpus, os_cgroup_processors());
	if (arenas.cpus == 1)
		return 1;
	limit = (uint64_t)arenas.cpus * options.narenas_ratio >> 16;
	return limit == 0 ? 1 : limit < ARENAS_AUTOMATIC_MOST ? (unsigned)limit : ARENAS_AUTOMATIC_MOST;
}

static bool is_automatic(const struct arena *arena)
{
	return arena != NULL && !arena->is_explicit;
}

// And how many threads it had.
static struct arena *least_used(unsigned *least)
{
	struct arena *best = NULL;

	*least = 0;
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
		unsigned threads = atomic_load_explicit(&arena->threads, memory_order_relaxed);

		if (is_automatic(arena) && (best == NULL || threads < *least)) {
			best = arena;
			*least = threads;
		}
	}
	return best;
}

// Counting processors reads files, without the lock. Threads that come at the same time each count, for what one says all are to keep: numbers of
// explicit arenas begin there. Who comes back here while it counts, as a signal handler does, finds the first arena.
unsigned arenas_automatic_most(void)
{
	static __thread bool counting;
	unsigned limit = arenas.limit, none = 0;

	if (limit != 0 || counting)
		return (unsigned)max_size(limit, 1);
	counting = true;
	if (arenas.cpus == 0)
		arenas.cpus = os_cpus_affine();
	limit = arena_limit();
	counting = false;
	return atomic_compare_exchange_strong(&arenas.limit, &none, limit) ? limit : none;
}

// Not where the program gave hooks: what lies there is what it asked for there.
static bool may_lend(const struct arena *arena)
{
	return is_automatic(arena) && extents_are_ours(&arena->pages.extents);
}

// For metadata, when the system has no memory and the heap has: else what is free could not be used for want of it.
static __attribute__((noinline)) void *lend_pages(size_t size)
{
	uintptr_t start = 0;

	for (struct arena *arena = NULL; start == 0 && (arena = arenas_next(arena)) != NULL;)
		if (may_lend(arena) && pages_have_room(&arena->pages, size))
			start = pages_alloc(&arena->pages, size, 0, NULL);
	return (void *)start;
}

static unsigned first_without_arena(unsigned limit)
{
	unsigned id = 0;

	while (id < limit && arena_of(id) != NULL)
		id++;
	return id;
}

// Under the lock.
static COLD void enter_in_table(unsigned id, struct arena *arena)
{
	atomic_store_explicit(&arenas.by_id[id], arena, memory_order_release);
	atomic_store_explicit(&arenas.live, arenas.live + 1, memory_order_relaxed);
	if (!arena->is_explicit)
		atomic_store_explicit(&arenas.automatic, arenas.automatic + 1, memory_order_release);
	if (id >= arenas.end)
		atomic_store_explicit(&arenas.end, id + 1, memory_order_release);
}

// A new arena is mapped without the lock: threads that begin at the same time may each make one, and all but one of them are unmapped again.
COLD struct arena *arena_make_automatic(unsigned id)
{
	struct arena *fresh = arena_of(id);

	if (fresh != NULL)
		return fresh;
	if (id == 0) {
		arenas.cpus = os_cpus_affine(); // before threads keep to some of them
		base_lender = lend_pages;
	}
	fresh = arena_create(id, false);
	mutex_lock(&arenas.lock);
	if (fresh != NULL && arena_of(id) == NULL)
		enter_in_table(id, fresh);
	mutex_unlock(&arenas.lock);
	if (fresh != NULL && arena_of(id) != fresh)
		base_free_table(fresh, sizeof *fresh);
	return arena_of(id);
}

// Each arena keeps slabs of its own half used. One for each processor is made in any case, of the others one whenever threads had to wait
// for locks some more times; as many as the program asks for by narenas.
static bool are_too_few(unsigned arenas_now)
{
	uint64_t waits = mutex_waits_ever(), before = atomic_load_explicit(&arenas.waits_before, memory_order_relaxed);

	if (options.narenas != 0 || arenas_now < arenas.cpus)
		return true;
	if (waits - before < WAITS_FOR_AN_ARENA)
		return false;
	atomic_store_explicit(&arenas.waits_before, waits, memory_order_relaxed);
	return true;
}

static struct arena *choose(unsigned *threads)
{
	struct arena *best = least_used(threads), *fresh;
	unsigned id = 0;

	if (best != NULL && *threads == 0)
		return best;
	if (best != NULL) {
		unsigned limit = arenas_automatic_most();

		id = first_without_arena(limit);
		if (id == limit || !are_too_few(id))
			return best;
	}
	fresh = arena_make_automatic(id);
	if (fresh == NULL)
		return best;
	*threads = 0;
	return fresh;
}

// Threads that begin at the same time see the same counts: who comes second chooses again.
COLD struct arena *arena_for_thread(void)
{
	struct arena *arena;
	unsigned threads;

	do
		arena = choose(&threads);
	while (arena != NULL && !atomic_compare_exchange_strong(&arena->threads, &threads, threads + 1));
	return arena;
}

// Figures before locks: hardly ever does another one have so much. One whose dirty pages are in small pieces would take a chunk itself.
struct arena *arena_for_run(struct arena *own, size_t size)
{
	size_t most = pages_allowed_dirty(&own->pages) + size, bytes = round_up(size, os_page_size());

	if (arenas_automatic_made() < 2 || !may_lend(own) || pages_dirty_bytes(&own->pages) >= most)
		return own;
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		if (may_lend(arena) && pages_dirty_bytes(&arena->pages) >= most && pages_have_room(&arena->pages, bytes))
			return pages_have_room(&own->pages, bytes) ? own : arena;
	return own;
}

bool arenas_apart(void)
{
	return options.narenas != 0 || atomic_load_explicit(&arenas.apart, memory_order_relaxed);
}

COLD struct arena *arena_common(struct arena *own)
{
	struct arena *first = arena_of(0);

	return arenas_apart() || !is_automatic(first) ? own : first;
}

// Threads that wait for one another wait for locks of the common arena, mostly. A sleep that comes of a preemption now and then is none of that.
void arenas_look(void)
{
	uint64_t waits = mutex_waits_ever(), before = atomic_load_explicit(&arenas.waits_then, memory_order_relaxed), now;

	if (waits - before < WAITS_TO_PART || arenas_apart() || !atomic_compare_exchange_strong(&arenas.waits_then, &before, waits))
		return;
	now = os_clock_ms();
	if (now - atomic_exchange(&arenas.looked_at, now) < PART_WITHIN_MS)
		atomic_store_explicit(&arenas.apart, true, memory_order_relaxed);
}

struct arena *arena_of(unsigned id)
{
	return id < ARENAS_MOST ? atomic_load_explicit(&arenas.by_id[id], memory_order_acquire) : NULL;
}

unsigned arenas_processors(void)
{
	return (unsigned)max_size(atomic_load_explicit(&arenas.cpus, memory_order_relaxed), 1);
}

unsigned arenas_automatic_made(void)
{
	return (unsigned)max_size(atomic_load_explicit(&arenas.automatic, memory_order_relaxed), 1);
}

unsigned arenas_sharing(void)
{
	return arenas_apart() ? arenas_automatic_made() : 1;
}

struct arena *arenas_next(const struct arena *before)
{
	struct arena *next = NULL;

	for (unsigned id = before == NULL ? 0 : before->id + 1; next == NULL && id < atomic_load_explicit(&arenas.end, memory_order_acquire); id++)
		next = arena_of(id);
	return next;
}

unsigned arenas_live(void)
{
	return atomic_load_explicit(&arenas.live, memory_order_relaxed);
}

unsigned arenas_numbers(void)
{
	return arenas_automatic_most() + arenas.explicit;
}

bool arenas_had_explicit(void)
{
	return atomic_load_explicit(&arenas.explicit, memory_order_relaxed) != 0;
}

// ARENAS_MOST: there is none left.
static unsigned explicit_number(unsigned automatic)
{
	unsigned id = ARENAS_MOST;

	mutex_lock(&arenas.lock);
	if (arenas.destroyed_count > 0)
		id = arenas.destroyed[--arenas.destroyed_count];
	else if (automatic + arenas.explicit < ARENAS_MOST)
		id = automatic + arenas.explicit++;
	mutex_unlock(&arenas.lock);
	return id;
}

struct arena *arena_make_explicit(void)
{
	unsigned id = explicit_number(arenas_automatic_most());
	struct arena *arena;

	if (id == ARENAS_MOST)
		return NULL;
	arena = arena_of(id) != NULL ? arena_of(id) : arena_create(id, true);
	mutex_lock(&arenas.lock);
	if (arena != NULL) {
		arena->created_at = os_clock_ms(); // anew, where the number was another's
		enter_in_table(id, arena);
		atomic_store(&arena->state, ARENA_LIVE);
	} else
		arenas.destroyed[arenas.destroyed_count++] = (uint8_t)id;
	mutex_unlock(&arenas.lock);
	return arena;
}

bool arena_close(struct arena *arena, unsigned threads, const void *reset_by)
{
	bool closed = false;
	uint32_t visitors;

	mutex_lock(&arenas.lock);
	if (arena->is_explicit && arena->state == ARENA_LIVE && arena->threads <= threads) {
		arena->reset_by = reset_by;
		atomic_store(&arena->state, ARENA_CLOSED);
		closed = true;
	}
	mutex_unlock(&arenas.lock);
	while (closed && (visitors = atomic_load(&arena->visitors)) != 0)
		os_word_wait(&arena->visitors, visitors, 1);
	return closed;
}

void arena_reopen(struct arena *arena, enum arena_state state)
{
	mutex_lock(&arenas.lock);
	atomic_store(&arena->state, state);
	if (state == ARENA_DESTROYED) {
		arenas.destroyed[arenas.destroyed_count++] = (uint8_t)arena->id;
		atomic_store_explicit(&arenas.live, arenas.live - 1, memory_order_relaxed);
	}
	mutex_unlock(&arenas.lock);
}

bool arena_bind(struct arena *arena)
{
	bool live;

	mutex_lock(&arenas.lock);
	live = arena->state == ARENA_LIVE;
	if (live)
		atomic_fetch_add_explicit(&arena->threads, 1, memory_order_relaxed);
	mutex_unlock(&arenas.lock);
	return live;
}

void arena_unbind(struct arena *arena)
{
	atomic_fetch_sub_explicit(&arena->threads, 1, memory_order_relaxed);
}

void arena_enter_anyway(struct arena *arena)
{
	atomic_fetch_add(&arena->visitors, 1);
}

// With arena_close: either it sees the visitor, or the visitor sees that the arena is closed.
bool arena_enter(struct arena *arena)
{
	arena_enter_anyway(arena);
	if (atomic_load(&arena->state) == ARENA_LIVE)
		return true;
	arena_leave(arena);
	return false;
}

// A child of fork that was called amid a visit, by a hook, say, finds nobody visiting, itself neither.
void arena_leave(struct arena *arena)
{
	uint32_t visitors = atomic_load(&arena->visitors);

	while (visitors != 0 && !atomic_compare_exchange_weak(&arena->visitors, &visitors, visitors - 1))
		;
}

static void bins_fork_lock(struct arena *arena)
{
	for (unsigned class = 1; class < SLAB_CLASSES; class++)
		mutex_fork_lock(&arena->bins[class].lock);
	samples_fork_lock(arena);
}

static void depots_fork_lock(struct arena *arena)
{
	for (unsigned class = 1; class < CLASSES; class++)
		mutex_fork_lock(&arena->depots[class].lock);
}

static void pages_fork_lock(struct arena *arena)
{
	mutex_fork_lock(&arena->pages.runs.lock);
}

static void extents_fork_lock(struct arena *arena)
{
	mutex_fork_lock(&arena->pages.extents.lock);
}

static void for_each_arena(void (*act)(struct arena *))
{
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		act(arena);
}

COLD void arenas_tell(struct vmag_root *root)
{
	root->arenas = (uintptr_t)arenas.by_id;
	root->arenas_end = (uintptr_t)&arenas.end;
}

// All locks of all arenas, of the object caches and of the magazines, in the order of their ranks.
void arenas_fork_prepare(void)
{
	mutex_fork_lock(&arenas.lock);
	caches_fork_lock_table();
	caches_fork_lock_depots();
	for_each_arena(depots_fork_lock);
	for_each_arena(bins_fork_lock);
	caches_fork_lock_bins();
	magazines_fork_lock_bins();
	for_each_arena(pages_fork_lock);
	caches_fork_lock_pages();
	magazines_fork_lock_pages();
	for_each_arena(extents_fork_lock);
	caches_fork_lock_extents();
	magazines_fork_lock_extents();
	sources_fork_prepare();
}

static void fork_unlock(struct arena *arena)
{
	mutex_fork_unlock(&arena->pages.extents.lock);
	mutex_fork_unlock(&arena->pages.runs.lock);
	samples_fork_unlock(arena);
	for (unsigned class = 1; class < SLAB_CLASSES; class++)
		mutex_fork_unlock(&arena->bins[class].lock);
	for (unsigned class = 1; class < CLASSES; class++)
		mutex_fork_unlock(&arena->depots[class].lock);
}

// The other threads are gone: those that were bound, those that were visiting, and those that went through its runs.
static void begin_in_child(struct arena *arena)
{
	atomic_store(&arena->threads, 0);
	atomic_store(&arena->guests, 0);
	atomic_store(&arena->front_bytes, 0);
	atomic_store(&arena->own_room, 0);
	atomic_store(&arena->visitors, 0);
	atomic_store(&arena->pages.decaying, false);
	kept_fork_child(arena);
	vmem_cursors_forget_others(&arena->pages.runs);
}

void arenas_fork_done(bool child)
{
	magazines_fork_done();
	caches_fork_done(child);
	sources_fork_done(child);
	for_each_arena(fork_unlock);
	if (child)
		for_each_arena(begin_in_child);
	mutex_fork_unlock(&arenas.lock);
}
