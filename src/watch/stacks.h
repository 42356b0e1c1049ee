// Stacks: every sequence of return addresses that was seen, once.
//
// A stack is known by its depth and its hash of 128 bits; what its frames are is kept only of those whose samples are told one day. A trace writes
// them into its file and needs them no more (watch/trace_stacks.h).
// Kept for the life of the process in base's memory; when MOST_STACKS are known, or there is no memory, further ones are
// counted under the stack without frames.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

enum { STACK_DEPTH = 128 };

// Two numbers of different making.
struct stack_hash {
	uint64_t one, other;
};

struct stack {
	// Constant.
	struct stack *next;  // of the same hash
	struct stack *older; // with frames, the one that was seen before
	struct stack_hash hash;
	uint32_t depth; // 0: the stack without frames, and no other
	bool has_frames;
	// Of the trace: by which number which file knows it (watch/trace_stacks.h).
	_Atomic uint64_t told;
	// Of the tallies, under their lock; the first may be read without.
	_Atomic uint32_t first_tally;
	uint32_t boxed; // where it is in the black box; 0: not there
	// Of whoever has the right to dump.
	uint32_t dump; // number of the last dump in which it is
	uint32_t number; // constant: 1, 2, 3 … in the order in which they were seen
	// Constant, of those that have them.
	uintptr_t frames[]; // return addresses, innermost first
};

// Of that depth and hash; with `frames`, innermost first, if they are to be kept; NULL: it need not have them. Of a new one takes a lock; may call the
// operating system without it.
struct stack *stacks_intern(size_t depth, struct stack_hash hash, const uintptr_t *frames);

// Of a frame and those further out, of which the hash is given; 0: there are none.
static inline struct stack_hash stacks_hash(struct stack_hash outer, uintptr_t frame)
{
	uint64_t one = (outer.one ^ frame) * GOLDEN, other = (outer.other + frame) * 0xff51afd7ed558ccdu;

	return (struct stack_hash){ one ^ one >> 29, other ^ other >> 32 };
}

// Of all, innermost first.
struct stack_hash stacks_hash_of(const uintptr_t *frames, size_t depth);

// The newest that has frames; by `older` one comes to all of those, ending with the stack without frames.
struct stack *stacks_newest(void);
uint32_t stacks_count(void);

void stacks_fork_prepare(void);
void stacks_fork_done(void);
