// Event trace: every allocation, free and resize with size, address, thread and time, in a file (2006's utrace, "U").
//
// Each thread writes its events into a buffer of its own, without a lock, and writes the full buffer to the file as one chunk
// (include/vmag/trace_format.h). Events happen while the doors are closed for DOOR_TRACE; otherwise nothing is here.
//
// The file is made at the first chunk of a process: <prefix>.<pid>.<n>.trace, with the first n that is not taken; a child
// after fork has its own. When the limit is reached recording ends, or in ring mode the oldest chunks are overwritten.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracer; // of a thread

enum { TRACE_PREFIX_BYTES = 256 };

// From now on events are taken. `most_bytes`: of the file; at least one chunk a thread. False: a trace is on already, or the
// prefix is too long.
bool trace_start(const char *prefix, uint64_t most_bytes, bool ring);

// Writes what all threads have and closes the file. What threads do at this moment may be lost.
void trace_stop(void);
bool trace_is_on(void);

// Events of this thread; `*own` is its tracer, NULL before its first event. May take a lock and call the operating system.
void trace_allocated(struct tracer **own, const void *object, size_t size);
void trace_freed(struct tracer **own, const void *object);
void trace_resized(struct tracer **own, const void *object, size_t size);

// The thread ends: what it has is written.
void trace_thread_end(struct tracer **own);

// In the child, events begin anew; `own` is the tracer of the thread that forked.
void trace_fork_prepare(void);
void trace_fork_done(bool child, struct tracer *own);
