// Stacks: every sequence of return addresses that was seen, once.
//
// Kept for the life of the process in base's memory; when MOST_STACKS are known, or there is no memory, further ones are
// counted under the stack without frames.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { STACK_DEPTH = 128 };

struct stack {
	// Constant but for `newer`.
	struct stack *next;  // of the same hash
	struct stack *older; // the one that was seen before
	struct stack *_Atomic newer; // the one that was seen after; written once, under the table's lock
	uint64_t hash;
	uint32_t number; // 1, 2, 3 …; 0: the stack without frames
	uint32_t depth;
	// Of the tallies, under their lock; the first may be read without.
	_Atomic uint32_t first_tally;
	uint32_t boxed; // where it is in the black box; 0: not there
	// Of whoever has the right to dump.
	uint32_t dump; // number of the last dump in which it is
	// Constant.
	uintptr_t frames[]; // return addresses, innermost first
};

// Of a new one takes a lock; may call the operating system without it.
struct stack *stacks_intern(const uintptr_t *frames, size_t depth);

// The same for `count` frames and, further out, the `kept` outermost ones of `outer`. `hash` is that of all, from the outermost inwards.
struct stack *stacks_intern_beyond(const uintptr_t *frames, size_t count, const struct stack *outer, size_t kept, uint64_t hash);

// Of a frame and those further out, of which the hash is given; 0: there are none.
static inline uint64_t stacks_hash(uint64_t outer, uintptr_t frame)
{
	uint64_t hash = (outer ^ frame) * 0x9e3779b97f4a7c15u;

	return hash ^ hash >> 29;
}

// The newest; by `older` one comes to all, ending with the stack without frames.
struct stack *stacks_newest(void);
uint32_t stacks_count(void);

// The one that was seen after this one, or the first; NULL: there is none. Their numbers ascend one by one.
struct stack *stacks_after(struct stack *stack);

void stacks_fork_prepare(void);
void stacks_fork_done(void);
