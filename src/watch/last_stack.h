// The stack that a thread found last: where another one meets it, what is further out is known, and only the frames further in are looked up.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/stack.h"
#include "watch/stacks.h"

// Of one thread; last_stack_clear makes it ready.
struct last_stack {
	struct os_stack_range range;
	struct os_walk walk;
	struct stack *stack; // that the walk found
	bool keeps_frames;   // so that its stacks have them
	uintptr_t frames[STACK_DEPTH];       // of the stack, innermost first, at the array's end
	struct stack_hash hash[STACK_DEPTH]; // of its outermost frame, its two outermost ones, and so on
};

// The stack from `frame` on, which is one of this library's functions'. By frame pointers or by tables; what is the system's is found by
// tables here. Locks and calls as stacks_intern.
struct stack *last_stack_find(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder);

// The stack of the caller in the program, without anything known. Returns its depth.
size_t last_stack_walk(uintptr_t *frames, size_t depth, enum os_unwinder unwinder);

// The frames of a stack, if it is the one that was found last; false: a handler found another one meanwhile.
bool last_stack_frames(const struct last_stack *own, const struct stack *stack, uintptr_t frames[STACK_DEPTH]);

// Another thread's, or none: it is forgotten.
void last_stack_clear(struct last_stack *own, bool keeps_frames);
