// The list of streams by glibc's names for it, as old as its first version for 64 bits. Other C libraries have none: there only who flushes all is kept out.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/streams.h"

#include <features.h>

#ifdef __GLIBC__

#include <stddef.h>

#pragma weak _IO_list_lock
#pragma weak _IO_list_unlock
#pragma weak _IO_list_resetlock
#pragma weak __libc_single_threaded

extern void _IO_list_lock(void), _IO_list_unlock(void), _IO_list_resetlock(void);
extern char __libc_single_threaded; // since glibc 2.32

static unsigned times; // under that lock: more than one when a signal handler forks amid this

static bool is_single_threaded(void)
{
	return &__libc_single_threaded != NULL && __libc_single_threaded;
}

void os_streams_fork_lock(void)
{
	if (_IO_list_lock == NULL || is_single_threaded())
		return;
	_IO_list_lock();
	times++;
}

// In a child the C library has made the lock anew, or not, when it took the process for one of a single thread: it is made anew here.
void os_streams_fork_unlock(bool child)
{
	if (times == 0)
		return;
	if (child) {
		times = 0;
		_IO_list_resetlock();
	} else {
		times--;
		_IO_list_unlock();
	}
}

#else

#include <pthread.h>

static pthread_mutex_t flushing = PTHREAD_MUTEX_INITIALIZER; // none of ours: who holds one of these is amid something of ours

void os_streams_flush_begin(void)
{
	pthread_mutex_lock(&flushing);
}

void os_streams_flush_end(void)
{
	pthread_mutex_unlock(&flushing);
}

void os_streams_fork_lock(void)
{
	os_streams_flush_begin();
}

void os_streams_fork_unlock(bool child)
{
	(void)child;
	os_streams_flush_end();
}

#endif
