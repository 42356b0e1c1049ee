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
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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
#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "os/unseen.h"

enum { STACK_BYTES = 256 * 1024, LOOK_MOST_MS = 1000, REFUSED_MS = 1000, UNSEEN_REST_MS = 250, ENDING_MS = 10 };

extern void *__libc_stack_end __attribute__((weak)); // glibc: in the loader

// By a function that no program has one of its own of, as some have of pthread_create.
#ifdef __GLIBC__
#define IN_C_LIBRARY gnu_get_libc_version
#else
#define IN_C_LIBRARY __libc_current_sigrtmin
#endif

// The C library frees memory while it holds a lock that pthread_create needs (the cache of stacks): a thread is never started by that
// from within it. Two objects at most: the library, and the loader where it is one of its own.
// The third is this library's own: what the loader tells of its thread-local memory.
enum { OWN = 2, OBJECTS };
static struct {
	const void *inside; // NULL: there is none
	uintptr_t start, end;
	const ElfW(Phdr) *local;
	char *block; // of the thread that asked; in a child of another one it is not this thread's
} objects[OBJECTS] = { { .inside = (const void *)IN_C_LIBRARY }, { .inside = &__libc_stack_end }, { .inside = objects } };

static size_t thread_local_bytes; // of all objects at load, which the C library takes from a thread's stack

static sigset_t programs_mask; // of a thread that started the background thread

// A child that shares our memory (vfork, clone) would take the thread with it when it ends, in whatever lock it holds.
static pid_t process;

// Until when no thread is asked for, ms. Of who has taken reclaim_state from RECLAIM_NO_THREAD.
static uint64_t refused_until;
static uint64_t unseen_refused_until; // for the C library's frees, which have no other: of a static program that is privileged each is one

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
static create_function *c_librarys; // pthread_create (background_create_by)

bool background_in_c_library(const void *caller)
{
	for (int i = 0; i < OWN; i++)
		if ((uintptr_t)caller >= objects[i].start && (uintptr_t)caller < objects[i].end)
			return true;
	return false;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t start = UINTPTR_MAX, end = 0;
	const ElfW(Phdr) *local = NULL;

	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t first = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_TLS) {
			thread_local_bytes += header->p_memsz + header->p_align;
			local = header;
		}
		if (header->p_type != PT_LOAD)
			continue;
		start = first < start ? first : start;
		end = first + header->p_memsz > end ? first + header->p_memsz : end;
	}
	for (int i = 0; i < OBJECTS; i++)
		if ((uintptr_t)objects[i].inside >= start && (uintptr_t)objects[i].inside < end) {
			objects[i].start = start;
			objects[i].end = end;
			objects[i].local = local;
			objects[i].block = info->dlpi_tls_data;
		}
	return 0;
}

// When to look next whether the program has a thread: soon after one of them ended, ever more rarely then. This thread's own.
static struct {
	uint64_t ends; // reclaim_ends, when it was read last
	uint64_t at_ms, pause_ms;
} look;

// What was left since the last step saw nobody asleep and woke nobody; who dismissed it or switched it off as well. False: it is awake.
static bool fall_asleep(bool unseen)
{
	uint32_t awake = RECLAIM_AWAKE, asleep = RECLAIM_ASLEEP;

	if (!atomic_compare_exchange_strong(&reclaim_state, &awake, RECLAIM_ASLEEP))
		return false;
	atomic_thread_fence(memory_order_seq_cst); // who switches it off writes, and then looks whether it is asleep
	if (!options.background_thread || reclaim_is_left(unseen) || (unseen ? atomic_load(&reclaim_dismissed) != 0 : atomic_load(&reclaim_ends) != look.ends)) {
		atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_AWAKE);
		return false;
	}
	return true;
}

// Sleeps until somebody leaves garbage, a thread ends that could be the last, or it is time to look.
static void rest(void)
{
	uint32_t asleep = RECLAIM_ASLEEP;

	if (!fall_asleep(false))
		return;
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
static COLD bool leave_end_to_a_thread(const void *unused)
{
	pthread_t thread;
	bool started = pthread_create(&thread, NULL, end_process, NULL) == 0;

	(void)unused;
	if (started)
		pthread_detach(thread);
	return started;
}

static COLD __attribute__((noinline)) void leave(bool over)
{
	if (over)
		process = 0; // none is started in its place
	atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
	if (over)
		reclaim_start_unwatched(leave_end_to_a_thread, NULL);
}

// Who shuts the process in waits for its end (reclaim_shut_in).
static inline bool is_wanted(void)
{
	return options.background_thread && atomic_load_explicit(&os_is_sandboxed, memory_order_relaxed) == 0;
}

// Until it is not wanted, or left over, or finds itself in a child that a callback of the program's forked: it is that one's only thread, and the C library
// exits with it. Whoever switches it on again while it ends finds no thread, and makes one.
static void *work(void *unused)
{
	int own = os_process_number();
	bool over = false;

	atomic_store(&reclaim_thread, (int)os_system_call(SYS_gettid));
	while (is_wanted() && !(over = is_left_over(os_clock_ms()))) {
		bool left = reclaim_step(os_clock_ms(), false);

		if (os_is_shut_in())
			break;
		if (os_process_number() != own)
			return unused;
		atomic_fetch_add_explicit(&reclaim_runs, 1, memory_order_relaxed);
		if (left || look.ends != 0)
			os_word_wait(&os_is_sandboxed, 0, RECLAIM_STEP_MS);
		if (!left)
			rest();
	}
	leave(over);
	return unused;
}

// As rest; but nobody is to find a second thread in the process for longer than there is something to do: false, and the next one is begun by who leaves
// something, where nobody does for a while. What the kernel asks of processes of one thread, and what programs ask that count their threads, is theirs again.
static bool rest_unseen(void)
{
	uint64_t now = os_clock_ms(), end = now + UNSEEN_REST_MS;
	uint32_t asleep = RECLAIM_ASLEEP;

	if (!fall_asleep(true))
		return true;
	for (; atomic_load(&reclaim_state) == RECLAIM_ASLEEP && now < end; now = os_clock_ms())
		os_word_wait(&reclaim_state, RECLAIM_ASLEEP, end - now);
	return !atomic_compare_exchange_strong(&reclaim_state, &asleep, RECLAIM_NO_THREAD);
}

// As work, for as long as it is wanted. The C library ends the process without regard to this one.
static void work_unseen(void)
{
	bool is_tired = false;

	while (!is_tired && options.background_thread && atomic_load(&reclaim_dismissed) == 0) {
		bool left = reclaim_step(os_clock_ms(), true);

		atomic_fetch_add_explicit(&reclaim_runs, 1, memory_order_relaxed);
		if (left)
			os_word_wait(&reclaim_dismissed, 0, RECLAIM_STEP_MS);
		else
			is_tired = !rest_unseen();
	}
	reclaim_unseen_ended();
	if (!is_tired) // last, for then another may begin
		atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
}

// What it calls of the C library is nobody's else.
static bool calls_c_library(void)
{
	void *functions[] = {(void *)mmap, (void *)munmap, (void *)mremap, (void *)mprotect, (void *)madvise};
	bool all = true;

	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
		all &= background_in_c_library(functions[i]);
	return all;
}

// A program at fixed addresses begins at those in its file, all else at 0 there.
static const void *local_image(void)
{
	uintptr_t address = objects[OWN].local->p_vaddr;

	return (const void *)(address >= objects[OWN].start ? address : objects[OWN].start + address);
}

// Whether the program catches SIGSYS, as one does that has system calls trapped by a filter of its own: where it is blocked a trapped one ends the process.
static bool catches_traps(void)
{
	struct sigaction action;

	return sigaction(SIGSYS, NULL, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// Where nobody dismisses it, a process that has something to give up gets none. The one before may be about to end.
static bool start_unseen(void)
{
	const ElfW(Phdr) *local = objects[OWN].local;

	if (!os_unseen_wait(ENDING_MS)) {
		errno = EAGAIN;
		return false;
	}
	if (local == NULL || catches_traps() || (size_t)((char *)&words - objects[OWN].block) >= local->p_memsz || !reclaim_may_be_unseen() || !calls_c_library() ||
	    (c_librarys == NULL && !os_thread_is_unprivileged()))
		return false;
	os_unseen_learn(objects[OWN].block, local_image(), local->p_filesz, local->p_memsz);
	reclaim_is_unseen = true;
	reclaim_unseen_begins();
	if (os_unseen_start(work_unseen))
		return true;
	reclaim_is_unseen = false;
	return false;
}

// A limit on processes or on memory may be met for a moment only; what else refuses says that no threads are to be had here.
static void refused(int failure)
{
	refused_until = failure == EAGAIN || failure == ENOMEM ? os_clock_ms() + REFUSED_MS : UINT64_MAX;
}

// The new thread inherits a mask that blocks all signals: the program's handlers run on the program's threads, but for that of trapped system calls.
static bool start(const void *caller)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	size_t stack_bytes = STACK_BYTES + round_up(thread_local_bytes, os_page_size());
	uint64_t now = os_clock_ms();
	bool within = background_in_c_library(caller);
	int failure;

	if (now < (within ? max_size(refused_until, unseen_refused_until) : refused_until) || os_process_number() != process || atomic_load(&reclaim_dismissed) != 0)
		return false;
	errno = 0;
	if (os_process_is_single() && start_unseen())
		return true;
	if (errno == EAGAIN || errno == ENOMEM || errno == EINVAL) { // so would pthread_create, but it makes the process one of several for ever
		refused(errno);
		return false;
	}
	if (within) {
		unseen_refused_until = now + RECLAIM_STEP_MS;
		return false;
	}
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	programs_mask = before;
	memcpy(&programs_mask, &os_signals_before, sizeof os_signals_before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_attr_setstacksize(&attributes, stack_bytes) != 0)
		pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN + stack_bytes);
	failure = (c_librarys != NULL ? c_librarys : pthread_create)(&thread, &attributes, work, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure != 0)
		refused(failure);
	return failure == 0;
}

void background_create_by(void *function)
{
	*(void **)&c_librarys = function;
}

void background_allow(void)
{
	dl_iterate_phdr(look_at_object, NULL);
	front_is_of_c_library = background_in_c_library;
	process = os_process_number();
	reclaim_start_thread = start;
}

void background_fork_child(void)
{
	if (os_is_shut_in() && !os_has_filter() && os_system_call(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) // another thread, which is not here, was about to ask for it
		atomic_store(&os_is_sandboxed, 0);
	process = atomic_load(&os_is_sandboxed) != 0 ? 0 : os_process_number(); // where one may not ask none is started
	look.ends = 0;
	refused_until = unseen_refused_until = 0; // what the parent may not have its child may: after an unshare of process numbers
	os_unseen_fork_child();
	reclaim_is_unseen = false;
	reclaim_fork_child_dismissals();
	atomic_store(&reclaim_state, RECLAIM_NO_THREAD);
}
