// Mutex with a rank: one word, a futex behind it; in debug builds ranks must be taken in falling floor order.
//
// word: 0 free, 1 held, 2 held and somebody sleeps (Drepper, "Futexes are tricky", mutex 2); 3 held by fork,
// 4 held by fork and somebody sleeps.
//
// Between fork's prepare and its end the forking thread holds all locks, yet other libraries' fork handlers may allocate in
// it before or after ours: for that thread, and it alone, a lock held by fork counts as free.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/count.h"
#include "util/assert.h"
#include "util/bits.h"

// The order in which locks may be taken: from small to large. fork takes them all in this order.
enum mutex_rank {
	RANK_CONTROLS, // names of controls, and their snapshot
	RANK_LIFE,     // first use
	RANK_GUARD,    // table of guarded buffers
	RANK_EXPLICIT, // table of explicit caches
	RANK_FRONTS,   // list of fronts
	RANK_CPU_FRONTS, // table of the fronts of processors
	RANK_CPU_FRONT, // front of a processor
	RANK_TRACE,    // tracers of threads
	RANK_TRACE_STACKS, // stacks that are to be written
	RANK_SAMPLED,  // table of sampled objects of object caches
	RANK_STACKS,   // table of call stacks
	RANK_PROFILE,  // tallies of the sampling profiler
	RANK_ARENAS,   // table of arenas
	RANK_CACHES,   // table of object caches
	RANK_CACHE_THREADS, // list of what threads keep of object caches
	RANK_DEPOT,    // full and empty magazines of one class of one arena
	RANK_BIN,      // slabs of one class of one arena
	RANK_PAGES,    // page runs of one arena (a vmem arena)
	RANK_EXTENTS,  // what an arena keeps of its hooks' memory
	RANK_SOURCES,  // list of the hooks that come with the library
	RANK_WINDOW,   // chunks of a file (a vmem arena)
	RANK_BREAK,    // end of the data segment
	RANK_HEAP,     // chunks of the process (a vmem arena)
	RANK_RESOURCES, // list of the program's vmem arenas
	RANK_RESOURCE, // one of them
	RANK_PAGE_MAP, // growth of the page map
	RANK_BASE,     // our own metadata
	RANK_COUNT
};

struct mutex {
	_Atomic uint32_t word;
	uint32_t ops; // times taken, under the lock; what runs over is in its figures (os/mutex_figures.h)
#if defined(VMAG_DEBUG) || defined(VMAG_COUNT)
	uint32_t rank;
#endif
};

// Locks that this thread holds, is about to take, or has just given back: what a signal handler came amid.
extern __thread uint32_t mutexes_held __attribute__((tls_model("initial-exec"))) HIDDEN;

static inline void mutex_note_lock(void)
{
	mutexes_held++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void mutex_note_unlock(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	ASSERT(mutexes_held > 0);
	mutexes_held--;
}

void mutex_lock_slow(struct mutex *mutex);
void mutex_unlock_slow(struct mutex *mutex);
void mutex_rank_push(uint32_t rank);
void mutex_rank_pop(uint32_t rank);

// For its figures (os/mutex_figures.h): it is new at this address; it was taken 2^32 times more.
void mutex_figures_forget(const struct mutex *mutex);
void mutex_ops_run_over(const struct mutex *mutex);

// Without the check of ranks, and counting, all zero, so that what a module keeps behind its lock lies in pages that nobody has touched.
#if defined(VMAG_DEBUG) || defined(VMAG_COUNT)
#define MUTEX_INIT(rank) { 0, 0, rank }
#else
#define MUTEX_INIT(rank) { 0, 0 }
#endif

// Of one that is all zero: no page is touched unless ranks are kept.
static inline void mutex_init(struct mutex *mutex, enum mutex_rank rank)
{
#if defined(VMAG_DEBUG) || defined(VMAG_COUNT)
	mutex->rank = rank;
#endif
	(void)rank;
	mutex_figures_forget(mutex);
}

// Under the lock, just taken.
static inline void mutex_count(struct mutex *mutex)
{
	uint32_t ops = mutex->ops + 1;

	__atomic_store_n(&mutex->ops, ops, __ATOMIC_RELAXED); // others read it meanwhile
	if (UNLIKELY(ops == 0))
		mutex_ops_run_over(mutex);
}

static inline void mutex_lock(struct mutex *mutex)
{
	uint32_t expected = 0;

	COUNT(locks[mutex->rank]);
	mutex_note_lock();
#ifdef VMAG_DEBUG
	mutex_rank_push(mutex->rank);
#endif
	if (UNLIKELY(!atomic_compare_exchange_strong_explicit(&mutex->word, &expected, 1, memory_order_acquire,
							      memory_order_relaxed)))
		mutex_lock_slow(mutex);
	mutex_count(mutex);
}

// False when somebody has it.
static inline bool mutex_try_lock(struct mutex *mutex)
{
	uint32_t expected = 0;

	mutex_note_lock();
	if (!atomic_compare_exchange_strong_explicit(&mutex->word, &expected, 1, memory_order_acquire, memory_order_relaxed)) {
		mutex_note_unlock();
		return false;
	}
	COUNT(locks[mutex->rank]);
#ifdef VMAG_DEBUG
	mutex_rank_push(mutex->rank);
#endif
	mutex_count(mutex);
	return true;
}

static inline __attribute__((always_inline)) void mutex_unlock(struct mutex *mutex)
{
	uint32_t expected = 1;

#ifdef VMAG_DEBUG
	mutex_rank_pop(mutex->rank);
#endif
	if (UNLIKELY(!atomic_compare_exchange_strong_explicit(&mutex->word, &expected, 0, memory_order_release,
							      memory_order_relaxed)))
		mutex_unlock_slow(mutex);
	mutex_note_unlock();
}

// For fork: take and release a lock as described above. Begin: after the first lock is taken, which keeps other forks out.
void mutex_fork_lock(struct mutex *mutex);
void mutex_fork_unlock(struct mutex *mutex);
void mutex_fork_begin(void);
void mutex_fork_end(void);
