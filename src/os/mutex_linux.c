// Mutex on Linux: a short spin, then futex wait; and the check of ranks in debug builds.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/mutex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/cpu.h"
#include "util/assert.h"

enum { SPINS = 64 };

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	int saved = errno;

	syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
	errno = saved;
}

void mutex_lock_slow(struct mutex *mutex)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t expected = 0;

		if (atomic_load_explicit(&mutex->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(&mutex->word, &expected, 1, memory_order_acquire,
							  memory_order_relaxed))
			return;
		os_cpu_relax();
	}
	while (atomic_exchange_explicit(&mutex->word, 2, memory_order_acquire) != 0)
		futex(&mutex->word, FUTEX_WAIT, 2);
}

void mutex_wake(struct mutex *mutex)
{
	futex(&mutex->word, FUTEX_WAKE, 1);
}

// fork's prepare holds many locks of one rank, hence "not below" rather than "above".
static __thread uint32_t held[RANK_COUNT];

void mutex_rank_push(uint32_t rank)
{
	for (uint32_t higher = rank + 1; higher < RANK_COUNT; higher++)
		ALWAYS(held[higher] == 0);
	held[rank]++;
}

void mutex_rank_pop(uint32_t rank)
{
	ALWAYS(held[rank] > 0);
	held[rank]--;
}
