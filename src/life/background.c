// The background thread.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "life/background.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "heap/reclaim.h"
#include "os/clock.h"

enum { STEP_MS = 150, STACK_BYTES = 64 * 1024 };

// Sleeps until somebody leaves garbage.
static void rest(void)
{
	uint32_t awake = RECLAIM_AWAKE;

	if (!atomic_compare_exchange_strong(&reclaim_state, &awake, RECLAIM_ASLEEP))
		return;
	while (atomic_load(&reclaim_state) == RECLAIM_ASLEEP)
		os_word_wait(&reclaim_state, RECLAIM_ASLEEP, 0);
}

static void *work(void *unused)
{
	_Atomic uint32_t never = 0;

	for (;;) {
		if (reclaim_step(os_clock_ms()))
			os_word_wait(&never, 0, STEP_MS);
		else
			rest();
	}
	return unused;
}

// The new thread inherits a mask that blocks all signals: the program's handlers run on the program's threads.
static void start(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int failure;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0)
		pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN + STACK_BYTES);
	failure = pthread_create(&thread, &attributes, work, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure != 0) {
		reclaim_start_thread = NULL; // no threads to be had here: not tried again
		atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
	}
}

void background_allow(void)
{
	reclaim_start_thread = start;
}

void background_fork_child(void)
{
	atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
}
