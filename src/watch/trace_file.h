// The file of an event trace: chunks, and the facts that a reader needs: stacks, names, mappings.
//
// The file is made at the first chunk of a process: <prefix>.<pid>.<n>.trace, with the first n that is not taken; a child
// after fork has its own. Chunks of events take the next place. Facts are written each time events are, when there are new
// ones: their last chunk is written again, at its old place, until it is full. In ring mode events keep to the first three
// quarters of the file's places (all but two of fewer than eight), and facts to the rest.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

#include "vmag/trace_format.h"
#include "watch/trace.h"

// The file that chunks will go to from now on. False: the prefix is too long.
bool trace_file_begin(const struct trace_wish *wish);

// Who writes says so, and then looks whether the trace is on: who stops it first says that it is off and then waits for the writers. Leaving is false if
// another file began meanwhile: a child has one, which a handler forked.
uint64_t trace_file_enter(void);
bool trace_file_leave(uint64_t entered);

// In between: writes the chunk whose payload follows the head; the caller has filled in what tells of the events. False: recording is to end, for the file is
// full or there is none. Keeps errno; calls the operating system.
bool trace_file_write(struct vmag_trace_chunk *head, uint64_t entered);

// After trace_generation became 0: waits until nobody is writing; some seconds at most, for who is left by a handler's jump comes to no end.
void trace_file_settle(void);

// Writes the facts, how it ended among them (VMAG_TRACE_EXITED, …), and closes the file; nobody is writing.
void trace_file_end(unsigned how);

// What the last facts will tell as the ledger, cut to TRACE_LEDGER_BYTES; a copy is kept.
enum { TRACE_LEDGER_BYTES = 1024 };
void trace_file_ledger(const char *fields, size_t length);

// The child has no file yet, and nobody writes.
void trace_file_fork_child(void);
