// Stacks that a thread found lately.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/known_stacks.h"

#include "util/bits.h"

static struct known_stack *place_of(struct known_stacks *own, uintptr_t frame)
{
	uintptr_t code = ((const uintptr_t *)frame)[1];

	return &own->known[(frame ^ code << 8) * 0x9e3779b97f4a7c15u >> (64 - own->lg)];
}

static __attribute__((noinline)) struct stack *walk(struct known_stacks *own, struct known_stack *known, uintptr_t frame)
{
	uintptr_t frames[STACK_DEPTH];
	size_t depth = os_stack_walk(frames, STACK_DEPTH, frame, &own->range, &known->walk);

	known->stack = stacks_intern(frames, depth);
	return known->stack;
}

struct stack *known_stacks_find(struct known_stacks *own, uintptr_t frame)
{
	struct known_stack *known;

	frame = os_stack_outside(frame);
	known = place_of(own, frame);
	return LIKELY(os_walk_holds(&known->walk, frame)) ? known->stack : walk(own, known, frame);
}

void known_stacks_clear(struct known_stacks *own, unsigned lg)
{
	own->range = (struct os_stack_range){ 0, 0 };
	own->lg = lg;
	for (size_t i = 0; i < (size_t)1 << lg; i++)
		own->known[i].walk.first = 0;
}
