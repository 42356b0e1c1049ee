// A thread that the C library does not know of: made by the system's call alone, on a stack and with thread-local memory of its own.
//
// While a process has one thread glibc and libstdc++ leave out what several would need: locks of mutexes and streams, atomic reference counts of
// std::shared_ptr. Any thread made by pthread_create ends that, for ever (docs/decisions/0061).
//
// In its thread-local memory only this library's is as in a fresh thread, and errno; the rest is zero. So it may call nothing that belongs to the
// program, and of the C library only what neither locks nor asks which thread it is: the functions of <string.h>, and those that are a system call. All signals
// are blocked in it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether glibc takes the process for one of a single thread. False where the C library is another.
bool os_process_is_single(void);

// What the loader tells of this library's thread-local memory: that of the calling thread, and what it begins with. Before a start.
void os_unseen_learn(void *block, const void *image, size_t image_bytes, size_t bytes);

// Starts it; there is one at most. False: not here, there is one, or errno says why not.
bool os_unseen_start(void (*body)(void));

// Waits until it has ended, to the kernel as well, for so long at most. False: it is there.
bool os_unseen_wait(uint64_t most_ms);

// It is not in a child.
void os_unseen_fork_child(void);

// abort, also in that thread: the program's handler for SIGABRT runs on the process's first one, where it finds its own thread-local memory.
_Noreturn void os_abort(void);
