// The ends of threads: values of this thread that functions get when the thread ends. And which process and thread this is,
// what it may, and which signals it takes.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <features.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Who wants to know.
enum os_thread_end { OS_THREAD_END_HEAP, OS_THREAD_END_CACHES, OS_THREAD_ENDS };

// Says once which function is called. False: the C library has no room, and os_thread_exit_value refuses.
bool os_thread_exit_hook(enum os_thread_end who, void (*function)(void *value));

// Sets this thread's value; NULL: the function is not called. May allocate through malloc. False: this thread's end will go
// unnoticed, so nothing that must not outlive the thread may be left to it.
bool os_thread_exit_value(enum os_thread_end who, void *value);

// The process's number. Not by getpid(2): others may interpose that (libfaketime), and the kernel would map another window of the C library for it.
int os_process_number(void);

// This thread's number in the kernel. In a process that is shut in as the C library has it (os_thread_in_process).
int os_thread_number(void);

// Whether this thread has no privilege that it could give up, nor another user or group to become.
bool os_thread_is_unprivileged(void);

// The process in which the heap began, or its child by fork: as of now. Whether this is still that one: not in a child that shares its memory (vfork)
// or was made without fork's handlers.
void os_process_begins(void);
bool os_process_is_own(void);

// This thread is about to fork, and no other is. Whether this thread's stack is that of the process's first one: not in the child of another thread, in which
// that one is the first.
void os_thread_forks(void);
bool os_thread_has_first_stack(void);

// What fork calls in this process from now on, until it has ended: a thread may fork while another is in exit(), and not even then may a fork that has begun
// be left without its end.
void os_process_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

// Between these no thread begins to run destructors in exit(), and once one does, others' forks wait for the end of the process: each is the first of what its
// handlers do. For musl's fork waits behind its handlers for the end of the destructors, and these may wait for what the handlers hold.
#ifdef __GLIBC__
static inline void os_process_forks(void)
{
}

static inline void os_process_has_forked(void)
{
}
#else
void os_process_forks(void);
void os_process_has_forked(void);
#endif

// Whether this process's memory is no other's: true in a child of one thread that was made without fork's handlers, too, but not after vfork,
// nor where a filter of system calls refuses such a child the question, as a container's does, or ends who asks it.
bool os_memory_is_own(void);

// The number there of the thread whose thread-local memory this is, 0: it is in another process; in a sandbox, where that is not asked, the number alone.
// Whether that thread is there no more; false for 0, and where the system does not tell.
int os_thread_in_process(void);
bool os_thread_is_gone(int number);

// Whether that is the thread in which the process began, or forked; and whether that one has ended, and all others but this one.
bool os_thread_is_first(int number);
bool os_thread_is_last(void);

// The system's name of this thread, cut to size - 1 bytes.
void os_thread_name(char *name, size_t size);

// Blocks all signals, the C library's own among them, for a moment, but for SIGSYS: a system call that a filter traps would end the process. The answer is what was blocked before.
uint64_t os_signals_block(void);
void os_signals_restore(uint64_t before);
extern __thread uint64_t os_signals_before; // what the last block answered
