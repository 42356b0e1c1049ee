// Mutex on Linux: a short spin, then futex wait; and the check of ranks in debug builds.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/mutex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/cpu.h"
#include "os/mutex_figures.h"
#include "os/system_call.h"
#include "util/assert.h"

enum { SPINS = 64 };
enum { FREE, HELD, HELD_AND_AWAITED, HELD_BY_FORK, HELD_BY_FORK_AND_AWAITED };

static __thread bool forking;
__thread uint32_t mutexes_held;

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	int saved = errno;

	os_system_call(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
	errno = saved;
}

static bool take(struct mutex *mutex, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong_explicit(&mutex->word, &from, to, memory_order_acquire, memory_order_relaxed);
}

static uint32_t look(struct mutex *mutex)
{
	return atomic_load_explicit(&mutex->word, memory_order_relaxed);
}

static void sleep_until_taken(struct mutex *mutex)
{
	while (!take(mutex, FREE, HELD_AND_AWAITED)) {
		uint32_t word = look(mutex);

		if (word == HELD || word == HELD_BY_FORK)
			take(mutex, word, word + 1); // awaited, from now on
		else if (word != FREE)
			futex(&mutex->word, FUTEX_WAIT, word);
	}
}

void mutex_lock_slow(struct mutex *mutex)
{
	uint64_t begun;

	COUNT(waits[mutex->rank]);
	for (int i = 0; i < SPINS; i++) {
		if (look(mutex) == FREE && take(mutex, FREE, HELD)) {
			mutex_spun(mutex, (unsigned)i);
			return;
		}
		if (look(mutex) >= HELD_BY_FORK && forking)
			return;
		os_cpu_relax();
	}
	begun = os_clock_ns();
	mutex_wait_begins(mutex);
	sleep_until_taken(mutex);
	mutex_wait_ends(mutex, os_clock_ns() - begun);
}

void mutex_unlock_slow(struct mutex *mutex)
{
	if (look(mutex) >= HELD_BY_FORK)
		return;
	if (atomic_exchange_explicit(&mutex->word, FREE, memory_order_release) == HELD_AND_AWAITED)
		futex(&mutex->word, FUTEX_WAKE, 1);
}

void mutex_fork_lock(struct mutex *mutex)
{
	mutex_lock(mutex);
	if (atomic_exchange_explicit(&mutex->word, HELD_BY_FORK, memory_order_relaxed) == HELD_AND_AWAITED)
		futex(&mutex->word, FUTEX_WAKE, INT_MAX); // to sleep again on the new value
}

// Not one that came into being since the fork began, of an arena that a fork handler's malloc made, say: nobody took it for the fork, and another thread may
// have it by now.
void mutex_fork_unlock(struct mutex *mutex)
{
	if (look(mutex) < HELD_BY_FORK)
		return;
#ifdef VMAG_DEBUG
	mutex_rank_pop(mutex->rank);
#endif
	if (atomic_exchange_explicit(&mutex->word, FREE, memory_order_release) == HELD_BY_FORK_AND_AWAITED)
		futex(&mutex->word, FUTEX_WAKE, INT_MAX);
	mutex_note_unlock();
}

void mutex_fork_begin(void)
{
	forking = true;
}

void mutex_fork_end(void)
{
	forking = false;
}

// fork's prepare holds many locks of one rank, hence "not below" rather than "above".
static __thread uint32_t held[RANK_COUNT];

void mutex_rank_push(uint32_t rank)
{
	if (forking)
		return;
	for (uint32_t higher = rank + 1; higher < RANK_COUNT; higher++)
		ALWAYS(held[higher] == 0);
	held[rank]++;
}

void mutex_rank_pop(uint32_t rank)
{
	if (forking)
		return;
	ALWAYS(held[rank] > 0);
	held[rank]--;
}
