// Event trace: every allocation, free and resize with size, address, thread, time and, if wanted, call stack, in a file
// (2006's utrace, "U"); the same of object caches and resource arenas.
//
// Each thread writes its events into a buffer of its own, without a lock, and writes the full buffer to the file as one chunk
// (include/vmag/trace_format.h, watch/trace_file.h). Events of malloc happen while the doors are closed for DOOR_TRACE, those
// of caches and arenas while trace_is_on; otherwise nothing is here.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

struct tracer; // of a thread

enum { TRACE_PREFIX_BYTES = 256 };

struct trace_wish {
	const char *prefix;    // of the file's name
	uint64_t most_bytes;   // of the file; at least a few chunks
	uint64_t most_seconds; // recording ends then; 0: no limit
	bool ring;             // at the limit of bytes the oldest chunks are overwritten
	bool stacks;           // each event has the stack of its call
	bool later;            // than the process began
};

// From now on events are taken. False: a trace is on already, or the prefix is too long.
bool trace_start(const struct trace_wish *wish);

// Writes what all threads have and closes the file. What threads do at this moment may be lost. `at_exit`: of the process, so there is nothing later.
void trace_stop(bool at_exit);

// Which trace is on; 0: none. Written by start and stop, and when a limit is reached.
extern _Atomic uint32_t trace_generation HIDDEN;
static inline bool trace_is_on(void)
{
	return atomic_load_explicit(&trace_generation, memory_order_relaxed) != 0;
}

// Events of this thread; `*own` is its tracer, NULL before its first event. May take a lock and call the operating system.
void trace_allocated(struct tracer **own, const void *object, size_t size);
void trace_freed(struct tracer **own, const void *object);
void trace_resized(struct tracer **own, const void *object, size_t size);

// This object is not the program's: its free is no event either. One at a time.
void trace_leave_out(const void *object);

// An object cache or a resource arena, as events tell of it.
struct trace_source {
	uint8_t tag;     // VMAG_TRACE_CACHE or VMAG_TRACE_ARENA
	uint64_t number; // no other one's, ever
	uint64_t bytes;  // see VMAG_TRACE_CACHE
	const char *name;
	_Atomic uint32_t *told; // in which file
};

// Of one of these: VMAG_TRACE_CACHE_ALLOC ….
void trace_other(struct tracer **own, unsigned what, const struct trace_source *source, uintptr_t start, size_t size);

// The thread ends: what it has is written.
void trace_thread_end(struct tracer **own);

// In the child, events begin anew; `own` is the tracer of the thread that forked.
void trace_fork_prepare(void);
void trace_fork_done(bool child, struct tracer *own);
