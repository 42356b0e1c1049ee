// The background thread.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "life/background.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "cache/table.h"
#include "conf/options.h"
#include "heap/front.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/pages.h"
#include "os/thread.h"

enum { STACK_BYTES = 256 * 1024, LOOK_MOST_MS = 1000, REFUSED_MS = 1000 };

// The C library frees memory while it holds a lock that pthread_create needs (the cache of stacks): a thread is never started
// from within it. Two objects at most: the library, and the loader where it is one of its own.
static struct {
	uintptr_t inside, start, end;
} c_library[2];

static size_t thread_local_bytes; // of all objects at load, which the C library takes from a thread's stack

static sigset_t programs_mask; // of a thread that started the background thread

// A child that shares our memory (vfork, clone) would take the thread with it when it ends, in whatever lock it holds.
static pid_t process;

// Until when no thread is asked for, ms: a limit on processes may be met for a moment only. Of who has taken reclaim_state from RECLAIM_NO_THREAD.
static uint64_t refused_until;

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
static create_function *c_librarys; // pthread_create (background_create_by)

static bool in_c_library(const void *caller)
{
	for (int i = 0; i < 2; i++)
		if ((uintptr_t)caller >= c_library[i].start && (uintptr_t)caller < c_library[i].end)
			return true;
	return false;
}

extern void *__libc_stack_end __attribute__((weak)); // glibc: in the loader

// By a function that no program has one of its own of, as some have of pthread_create.
#ifdef __GLIBC__
#define IN_C_LIBRARY gnu_get_libc_version
#else
#define IN_C_LIBRARY __libc_current_sigrtmin
#endif

static int look_at_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t start = UINTPTR_MAX, end = 0;

	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t first = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_TLS)
			thread_local_bytes += header->p_memsz + header->p_align;
		if (header->p_type != PT_LOAD)
			continue;
		start = first < start ? first : start;
		end = first + header->p_memsz > end ? first + header->p_memsz : end;
	}
	for (int i = 0; i < 2; i++)
		if (c_library[i].inside >= start && c_library[i].inside < end) {
			c_library[i].start = start;
			c_library[i].end = end;
		}
	return 0;
}

static void look_at_objects(void)
{
	c_library[0].inside = (uintptr_t)IN_C_LIBRARY;
	c_library[1].inside = (uintptr_t)&__libc_stack_end; // 0: there is none
	dl_iterate_phdr(look_at_object, NULL);
}

// When to look next whether the program has a thread: soon after one of them ended, ever more rarely then. This thread's own.
static struct {
	uint64_t ends; // reclaim_ends, when it was read last
	uint64_t at_ms, pause_ms;
} look;

// Sleeps until somebody leaves garbage, a thread ends that could be the last, or it is time to look.
// What was left since the last step saw nobody asleep and woke nobody.
static void rest(void)
{
	uint32_t awake = RECLAIM_AWAKE, asleep = RECLAIM_ASLEEP;

	if (!atomic_compare_exchange_strong(&reclaim_state, &awake, RECLAIM_ASLEEP))
		return;
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		if (reclaim_garbage(arena) > 0)
			atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE);
	if (caches_garbage() > 0)
		atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE);
	if (atomic_load(&reclaim_ends) != look.ends)
		atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE);
	for (uint64_t now = 0; atomic_load(&reclaim_state) == RECLAIM_ASLEEP;) {
		if (look.ends != 0 && (now = os_clock_ms()) >= look.at_ms)
			atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE);
		else
			os_word_wait(&reclaim_state, RECLAIM_ASLEEP, look.ends != 0 ? look.at_ms - now : 0);
	}
}

// The program has no thread any more: the C library would end the process, were it not for this one. Who ends is still there for a moment.
static bool is_left_over(uint64_t now_ms)
{
	uint64_t ends = atomic_load(&reclaim_ends);

	if (ends != look.ends) {
		look.pause_ms = RECLAIM_STEP_MS / 2;
		look.at_ms = now_ms;
	}
	look.ends = ends;
	if (ends == 0 || now_ms < look.at_ms)
		return false;
	look.pause_ms = min_size(look.pause_ms * 2, LOOK_MOST_MS);
	look.at_ms = now_ms + look.pause_ms;
	return os_thread_is_last();
}

// As the C library does it when the last thread ends; on a stack like those of the program's threads, with the signals of the one that started this.
static void *end_process(void *unused)
{
	(void)unused;
	pthread_sigmask(SIG_SETMASK, &programs_mask, NULL);
	exit(0);
}

// Where no thread can be had, this is the last one, and the C library ends the process when it ends.
static void leave_end_to_a_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_process, NULL) == 0)
		pthread_detach(thread);
}

// Until it is switched off, or left over. Whoever switches it on again while it ends finds no thread, and makes one.
static void *work(void *unused)
{
	_Atomic uint32_t never = 0;
	bool over = false;

	while (options.background_thread && !(over = is_left_over(os_clock_ms()))) {
		bool left = reclaim_step(os_clock_ms());

		atomic_fetch_add_explicit(&reclaim_runs, 1, memory_order_relaxed);
		if (left || look.ends != 0)
			os_word_wait(&never, 0, RECLAIM_STEP_MS);
		if (!left)
			rest();
	}
	if (over)
		process = 0; // none is started in its place
	atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
	if (over)
		leave_end_to_a_thread();
	return unused;
}

// The new thread inherits a mask that blocks all signals: the program's handlers run on the program's threads.
static bool start(const void *caller)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	size_t stack_bytes = STACK_BYTES + round_up(thread_local_bytes, os_page_size());
	int failure;

	if (os_clock_ms() < refused_until || in_c_library(caller) || os_process_number() != process)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	programs_mask = before;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_attr_setstacksize(&attributes, stack_bytes) != 0)
		pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN + stack_bytes);
	failure = (c_librarys != NULL ? c_librarys : pthread_create)(&thread, &attributes, work, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure != 0) // other than by a limit: no threads are to be had here
		refused_until = failure == EAGAIN ? os_clock_ms() + REFUSED_MS : UINT64_MAX;
	return failure == 0;
}

void background_create_by(void *function)
{
	*(void **)&c_librarys = function;
}

void background_allow(void)
{
	look_at_objects();
	front_is_of_c_library = in_c_library;
	process = os_process_number();
	reclaim_start_thread = start;
}

void background_fork_child(void)
{
	process = os_process_number();
	look.ends = 0;
	atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
}
