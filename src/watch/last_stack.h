// The stack that a thread found last: where another one meets it, what is further out is known, and only the frames further in are looked up.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "os/stack.h"
#include "watch/stacks.h"

// Of one thread; last_stack_clear makes it ready.
struct last_stack {
	struct os_stack_range range;
	struct os_walk walk;
	struct stack *stack; // that the walk found
	uint64_t hash[STACK_DEPTH]; // of its outermost frame, its two outermost ones, and so on
};

// The stack from `frame` on, which is one of this library's functions'. By frame pointers or by tables; what is the system's is found by
// tables here. As stacks_intern.
struct stack *last_stack_find(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder);

// The stack of the caller in the program, without anything known. Returns its depth.
size_t last_stack_walk(uintptr_t *frames, size_t depth, enum os_unwinder unwinder);

// Another thread's, or none: it is forgotten.
void last_stack_clear(struct last_stack *own);
