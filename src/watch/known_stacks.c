// Stacks that a thread found lately.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/known_stacks.h"

#include "base/base.h"
#include "os/rules.h"
#include "util/bits.h"

// Of all threads; NULL before first use.
static struct os_rules *_Atomic rules;

static __attribute__((noinline)) struct os_rules *make_rules(void)
{
	struct os_rules *made = base_alloc_table(sizeof *made), *none = NULL;

	if (made != NULL && atomic_compare_exchange_strong(&rules, &none, made))
		return made;
	if (made != NULL)
		base_free_table(made, sizeof *made);
	return none;
}

// By frame pointers for want of memory, or of the system's unwinder where there is no other.
static inline struct os_rules *rules_for(enum os_unwinder unwinder)
{
	struct os_rules *made = atomic_load_explicit(&rules, memory_order_acquire);

	return unwinder == OS_UNWIND_FRAMES || !OS_HAS_RULES ? NULL : LIKELY(made != NULL) ? made : make_rules();
}

size_t known_stacks_walk(uintptr_t *frames, size_t depth, enum os_unwinder unwinder)
{
	struct os_stack_range range = { 0, 0 };
	struct os_walk walk;

	return os_stack_walk(frames, depth, os_stack_outside((uintptr_t)__builtin_frame_address(0)), rules_for(unwinder), &range, &walk);
}

static struct known_stack *place_of(struct known_stacks *own, uintptr_t frame)
{
	uintptr_t code = ((const uintptr_t *)frame)[1];

	return &own->known[(frame ^ code << 8) * 0x9e3779b97f4a7c15u >> (64 - own->lg)];
}

static __attribute__((noinline)) struct stack *walk(struct known_stacks *own, struct known_stack *known, uintptr_t frame,
						    enum os_unwinder unwinder)
{
	uintptr_t frames[STACK_DEPTH];
	size_t depth = os_stack_walk(frames, STACK_DEPTH, frame, rules_for(unwinder), &own->range, &known->walk);

	known->stack = stacks_intern(frames, depth);
	return known->stack;
}

struct stack *known_stacks_find(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder)
{
	struct known_stack *known;

	frame = os_stack_outside(frame);
	known = place_of(own, frame);
	return LIKELY(os_walk_holds(&known->walk, frame)) ? known->stack : walk(own, known, frame, unwinder);
}

void known_stacks_clear(struct known_stacks *own, unsigned lg)
{
	own->range = (struct os_stack_range){ 0, 0 };
	own->lg = lg;
	for (size_t i = 0; i < (size_t)1 << lg; i++)
		own->known[i].walk.first = 0;
}
