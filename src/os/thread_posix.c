// The ends of threads by POSIX keys; what Linux tells of the first and the last one, of privileges and signals.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/file.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "util/bits.h"

static struct {
	pthread_key_t key;
	bool made;
} ends[OS_THREAD_ENDS];

bool os_thread_exit_hook(enum os_thread_end who, void (*function)(void *value))
{
	ends[who].made = pthread_key_create(&ends[who].key, function) == 0;
	return ends[who].made;
}

bool os_thread_exit_value(enum os_thread_end who, void *value)
{
	return ends[who].made && pthread_setspecific(ends[who].key, value) == 0;
}

#ifdef __GLIBC__
// pthread_atfork is this for a library, whose handlers glibc forgets when it ends that library: in exit(), that is. Those of NULL, the program's own, it keeps.
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

void os_process_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	__register_atfork(prepare, parent, child, NULL);
}
#else
static pthread_mutex_t before_destructors = PTHREAD_MUTEX_INITIALIZER; // none of ours: who holds one of these is amid something of ours
static __thread bool runs_destructors;

// Who does not ask which process it is waits a second at most: the lock may be held by a thread of another one.
static void lock_for_a_while(void)
{
	_Atomic uint32_t never = 0;

	for (int i = 0; i < 1000 && pthread_mutex_trylock(&before_destructors) != 0; i++)
		os_word_wait(&never, 0, 1);
}

// The last of the functions that exit() calls, for it is registered first. A child that a handler made amid a fork has the lock as its maker held it.
static void destructors_begin(void)
{
	if (atomic_load_explicit(&os_is_sandboxed, memory_order_relaxed) != 0) {
		runs_destructors = true;
		lock_for_a_while();
		return;
	}
	if (!os_process_is_own())
		return;
	runs_destructors = true; // first: a handler may fork once it is locked
	pthread_mutex_lock(&before_destructors);
}

void os_process_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	pthread_atfork(prepare, parent, child);
	atexit(destructors_begin);
}

void os_process_forks(void)
{
	if (!runs_destructors)
		pthread_mutex_lock(&before_destructors);
}

void os_process_has_forked(void)
{
	if (!runs_destructors)
		pthread_mutex_unlock(&before_destructors);
}
#endif

int os_process_number(void)
{
	return (int)os_system_call(SYS_getpid);
}

int os_thread_number(void)
{
	return os_is_shut_in() ? os_thread_in_process() : (int)os_system_call(SYS_gettid);
}

// <linux/capability.h>, which not every C library brings along.
bool os_thread_is_unprivileged(void)
{
	struct {
		uint32_t version;
		int thread;
	} header = { 0x20080522, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} data[2];
	uid_t users[3];
	gid_t groups[3];

	return os_system_call(SYS_getresuid, &users[0], &users[1], &users[2]) == 0 && os_system_call(SYS_getresgid, &groups[0], &groups[1], &groups[2]) == 0 &&
	       os_system_call(SYS_capget, &header, data) == 0 && users[0] != 0 && users[0] == users[1] && users[0] == users[2] && groups[0] == groups[1] &&
	       groups[0] == groups[2] && (data[0].permitted | data[1].permitted) == 0;
}

static int process;
static pthread_t forks, first_by_fork; // with a stack that is not the first thread's; else none

static bool may_ask(void)
{
	return atomic_load_explicit(&os_is_sandboxed, memory_order_relaxed) == 0;
}

// As the C library has it, which tells it in the thread's clock: whose thread-local memory this is. A thread that was made by the system's call alone may
// have its maker's.
static __attribute__((noinline)) int number_in_library(void)
{
	clockid_t clock;

	return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

// A filter may end who asks. In fork's child this is the first thread, and the C library knows its number.
void os_process_begins(void)
{
	process = process == 0 || may_ask() ? os_process_number() : number_in_library();
	first_by_fork = forks;
}

void os_thread_forks(void)
{
	forks = os_thread_has_first_stack() ? 0 : pthread_self();
}

bool os_thread_has_first_stack(void)
{
	bool is_first = may_ask() ? os_thread_number() == os_process_number() : number_in_library() == process;

	return is_first && first_by_fork != pthread_self();
}

bool os_process_is_own(void)
{
	return os_process_number() == process;
}

// The system has nothing to do to unshare what is not shared, and says so; else it refuses.
bool os_memory_is_own(void)
{
	int saved = errno;
	bool has = os_process_is_own() || os_system_call(SYS_unshare, (unsigned long)CLONE_VM) == 0;

	errno = saved;
	return has;
}

int os_thread_in_process(void)
{
	return !may_ask() || os_process_is_own() ? number_in_library() : 0;
}

// A signal of none: the system only looks whether it could be sent.
bool os_thread_is_gone(int number)
{
	int saved = errno;
	bool gone = number != 0 && os_system_call(SYS_tgkill, process, number, 0) != 0 && errno == ESRCH;

	errno = saved;
	return gone;
}

bool os_thread_is_first(int number)
{
	return number == process;
}

// glibc's number of the threads that it knows of: with the last of them it ends the process. A name of its own, which the loader finds from 2.34 on; in no
// static program.
#ifdef __GLIBC__
static COLD bool is_last_in_library(void)
{
	const volatile unsigned *threads = dlsym(RTLD_DEFAULT, "__nptl_nthreads");

	return threads != NULL && *threads == 1;
}
#else
static bool is_last_in_library(void)
{
	return false;
}
#endif

// The first thread's state and the number of threads: fields 3 and 20 (proc(5)). It counts as long as there is another. The system counts those, too, that
// the C library does not: a program's own, and its own that poll for io_uring.
static COLD bool is_last_in_system(void)
{
	char text[512];
	const char *at = os_file_read("/proc/self/stat", text, sizeof text) <= 0 ? NULL : strrchr(text, ')');
	bool ended = at != NULL && strncmp(at, ") Z ", 4) == 0;

	for (int field = 2; at != NULL && field < 20; field++)
		at = strchr(at + 1, ' ');
	return ended && at != NULL && strncmp(at, " 2 ", 3) == 0;
}

COLD bool os_thread_is_last(void)
{
	return is_last_in_system() || is_last_in_library();
}

void os_thread_name(char *name, size_t size)
{
	char own[16] = "";

	os_system_call(SYS_prctl, PR_GET_NAME, own);
	strncpy(name, own, size - 1);
	name[size - 1] = '\0';
}

__thread uint64_t os_signals_before;

uint64_t os_signals_block(void)
{
	uint64_t all = ~((uint64_t)1 << (SIGSYS - 1)), before = 0;
	int saved = errno;

	os_system_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
	errno = saved;
	os_signals_before = before;
	return before;
}

void os_signals_restore(uint64_t before)
{
	int saved = errno;

	os_system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
	errno = saved;
}
