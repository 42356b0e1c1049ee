// Stacks that a thread found lately, by their innermost frame, with the words of its stack that the walks read.
//
// Who walks again from the same frame and finds the same words finds the same stack: so the words, whose places are known, are
// compared in place of walking, and nothing is hashed. Whatever differs is walked anew and takes the place of what was known.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "os/stack.h"
#include "watch/stacks.h"

struct known_stack {
	struct stack *stack;
	struct os_walk walk;
};

// Of one thread: 2^lg of them, at first all zero, as the range is.
struct known_stacks {
	struct os_stack_range range;
	unsigned lg;
	struct known_stack known[];
};

static inline size_t known_stacks_bytes(unsigned lg)
{
	return sizeof(struct known_stacks) + (sizeof(struct known_stack) << lg);
}

// The stack from `frame` on, which is one of this library's functions'. By frame pointers or by tables; what is the system's is found by
// tables here. As stacks_intern.
struct stack *known_stacks_find(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder);

// The stack of the caller in the program, without anything known. Returns its depth.
size_t known_stacks_walk(uintptr_t *frames, size_t depth, enum os_unwinder unwinder);

// Another thread's, or none: all is forgotten.
void known_stacks_clear(struct known_stacks *own, unsigned lg);
