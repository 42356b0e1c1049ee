// Stacks that a thread found lately, with the words of its stack that the walks read; and the one that it found last.
//
// Who walks again from the same frame and finds the same words finds the same stack: so the words, whose places are known, are compared in place of
// walking. Tried are the stack that came after the last one the time before, and one that was found from this frame and caller. It is the second time
// that words are kept, for most stacks of most programs do not come again before others in their place.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

#include "watch/last_stack.h"

enum { LG_KNOWN_STACKS = 9, LG_CALLERS = 9, KNOWN_WORDS = 64 };

struct known_stack {
	struct stack *stack;
	uintptr_t frame;
	uint32_t count; // of words; 0: none are kept
	uint32_t generation; // as of struct os_walk
	struct known_stack *next; // which was found after this one, the last time
	uint32_t number; // in the trace's file; 0: it was not told when the words were kept
	uint16_t at[KNOWN_WORDS]; // of a word: how many words above the frame
	uintptr_t value[KNOWN_WORDS];
};

// Of one thread; all zero at first, and known_stacks_clear makes it ready.
struct known_stacks {
	struct last_stack last;
	struct known_stack *newest; // which was found last
	bool any; // known
	struct known_stack *by_caller[1 << LG_CALLERS]; // by frame and return address: the last that was not `next`, or NULL
	struct known_stack known[1 << LG_KNOWN_STACKS]; // each at the place of its stack
};

struct known {
	struct stack *stack;
	uint32_t number; // in the trace's file, if that is known without a look at the stack; else 0
};

// As last_stack_find and last_stack_clear. Who begins another file clears first.
struct known known_stacks_find(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder);
void known_stacks_clear(struct known_stacks *own);
