// The stacks of an event trace, and the names of object caches and arenas: each is told once a file, as a fact, when the first event has it, and goes by a number from then on.
//
// Chunks of them are filled under a lock, which is not held across a write; who writes events writes what was filled since (watch/trace_file.h).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "util/bits.h"
#include "watch/stacks.h"

// Which file it is that stacks are told in, from 1: the upper half of a stack's `told`; the lower one is its number.
extern _Atomic uint32_t trace_stacks_file HIDDEN;

// The stack's number in this file, from 1; 0: it was not told yet.
static inline uint32_t trace_stacks_number(const struct stack *stack)
{
	uint64_t told = atomic_load_explicit(&stack->told, memory_order_relaxed);

	return LIKELY(told >> 32 == atomic_load_explicit(&trace_stacks_file, memory_order_relaxed)) ? (uint32_t)told : 0;
}

// Tells one, if nobody did meanwhile; its number, or 0: no memory, or the thread holds a lock. `frames`: all of it, innermost first. Takes a lock; may call the operating system without it.
uint32_t trace_stacks_tell(struct stack *stack, const uintptr_t *frames);

// Tells the name of a cache or an arena, unless this file has it, by the same lock. Where there is no memory, or the thread holds a lock, a later event tells it.
struct trace_source;
void trace_stacks_name(const struct trace_source *source);

// Another file: no stack has a number in it, and nothing is to be written.
void trace_stacks_begin(void);

// The next chunk that is to be written, copied; one that is not full comes again when there is more in it. Returns where the sequence is kept under which it
// was, or now will be, written; NULL: all is written. For one caller at a time.
struct facts;
uint32_t *trace_stacks_next(struct facts *copy);

void trace_stacks_fork_prepare(void);
void trace_stacks_fork_done(void);
