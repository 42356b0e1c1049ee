// The C library's list of streams, which fopen, fclose and fflush(NULL) lock, and fork.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

// glibc's fork locks the list behind all fork handlers. With the heap's locks taken by then it may wait for fflush(NULL) in another thread, which waits
// for a stream of a third one, which waits for the heap. So who forks takes it before them: once here and once there, for it is recursive.
void os_streams_fork_lock(void);
void os_streams_fork_unlock(bool child);

// Around fflush(NULL), with other C libraries than glibc (api/fflush.c): their fork waits for the list, too (musl), but has no names for it. There who forks waits
// for who is in between, and lets nobody in until it is done.
void os_streams_flush_begin(void);
void os_streams_flush_end(void);
