// The stack that a thread found last.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/last_stack.h"

#include "base/base.h"
#include "os/rules.h"
#include "util/bits.h"

_Static_assert((int)OS_WALK_MOST <= (int)STACK_DEPTH, "where two walks meet, all frames together are not too many");

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

size_t last_stack_walk(uintptr_t *frames, size_t depth, enum os_unwinder unwinder)
{
	struct os_stack_range range = { 0 };
	struct os_walk none;
	size_t kept;

	none.count = none.generation = 0;
	return os_stack_walk(frames, depth, os_stack_outside((uintptr_t)__builtin_frame_address(0)), rules_for(unwinder), &range, &none, &kept);
}

static void forget(struct last_stack *own)
{
	own->walk.count = 0;
	own->stack = stacks_intern(NULL, 0);
}

static __attribute__((noinline)) struct stack *walk(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder)
{
	uintptr_t frames[STACK_DEPTH];
	size_t kept, count = os_stack_walk(frames, STACK_DEPTH, frame, rules_for(unwinder), &own->range, &own->walk, &kept);
	uint64_t hash;

	if (UNLIKELY(kept > own->stack->depth || kept + count > STACK_DEPTH)) { // a handler found a stack meanwhile
		forget(own);
		return own->stack;
	}
	hash = kept == 0 ? 0 : own->hash[kept - 1];
	for (size_t i = count, at = kept; i-- > 0; at++)
		own->hash[at] = hash = stacks_hash(hash, frames[i]);
	own->stack = stacks_intern_beyond(frames, count, own->stack, kept, hash);
	if (UNLIKELY(own->stack->number == 0)) // it has no frames of which the next could keep any
		own->walk.count = 0;
	return own->stack;
}

struct stack *last_stack_find(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder)
{
	frame = os_stack_outside(frame);
	return os_walk_holds(&own->walk, frame) ? own->stack : walk(own, frame, unwinder);
}

void last_stack_clear(struct last_stack *own)
{
	own->range = (struct os_stack_range){ 0 };
	forget(own);
}
