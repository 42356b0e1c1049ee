// The stack that a thread found last.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/last_stack.h"

#include <string.h>

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

static size_t walk_alone(uintptr_t *frames, size_t depth, uintptr_t frame, enum os_unwinder unwinder)
{
	struct os_stack_range range = { 0 };
	struct os_walk none;
	size_t kept;

	none.count = none.generation = none.begun = none.taken = 0;
	return os_stack_walk(frames, depth, frame, rules_for(unwinder), &range, &none, &kept);
}

size_t last_stack_walk(uintptr_t *frames, size_t depth, enum os_unwinder unwinder)
{
	return walk_alone(frames, depth, os_stack_outside((uintptr_t)__builtin_frame_address(0)), unwinder);
}

// The walk last: a handler that comes in between leaves one that is of its stack, or none.
static void forget(struct last_stack *own)
{
	own->stack = stacks_intern(0, (struct stack_hash){ 0 }, NULL);
	atomic_signal_fence(memory_order_seq_cst);
	own->walk.taken = own->walk.begun - 1;
	own->walk.count = 0;
}

// Whether no walk began since that one.
static inline bool is_newest(const struct last_stack *own, uint32_t begun)
{
	atomic_signal_fence(memory_order_seq_cst);
	return LIKELY(own->walk.begun == begun);
}

// A handler found a stack amid a walk, in the same memory: what the walk kept may be of either.
static __attribute__((noinline)) struct stack *walk_again(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder)
{
	uintptr_t frames[STACK_DEPTH];
	size_t count = walk_alone(frames, STACK_DEPTH, frame, unwinder);

	forget(own);
	return stacks_intern(count, stacks_hash_of(frames, count), own->keeps_frames ? frames : NULL);
}

static __attribute__((noinline)) struct stack *walk(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder)
{
	uintptr_t frames[STACK_DEPTH], *end = own->frames + STACK_DEPTH;
	uint32_t begun = own->walk.begun + 1;
	size_t kept, count = os_stack_walk(frames, STACK_DEPTH, frame, rules_for(unwinder), &own->range, &own->walk, &kept), depth = kept + count;
	struct stack_hash hash = { 0 };
	struct stack *stack;

	if (UNLIKELY(kept > own->stack->depth || depth > STACK_DEPTH))
		return walk_again(own, frame, unwinder);
	if (kept > 0)
		hash = own->hash[kept - 1];
	if (own->keeps_frames)
		memcpy(frames + count, end - kept, kept * sizeof *frames);
	if (UNLIKELY(!is_newest(own, begun)))
		return walk_again(own, frame, unwinder);
	for (size_t i = count, at = kept; i-- > 0;) {
		own->hash[at] = hash = stacks_hash(hash, frames[i]);
		end[-(ptrdiff_t)++at] = frames[i];
	}
	own->stack = stack = stacks_intern(depth, hash, own->keeps_frames ? frames : NULL);
	atomic_signal_fence(memory_order_seq_cst);
	own->walk.taken = begun;
	if (UNLIKELY(!is_newest(own, begun) || stack->depth == 0)) // it has no frames of which the next could keep any
		forget(own);
	return stack;
}

struct stack *last_stack_find(struct last_stack *own, uintptr_t frame, enum os_unwinder unwinder)
{
	uint32_t begun = own->walk.begun;
	struct stack *stack = own->stack;

	frame = os_stack_outside(frame);
	return os_walk_holds(&own->walk, frame) && is_newest(own, begun) ? stack : walk(own, frame, unwinder);
}

bool last_stack_frames(const struct last_stack *own, const struct stack *stack, uintptr_t frames[STACK_DEPTH])
{
	uint32_t begun = own->walk.begun;

	if (own->stack != stack)
		return false;
	memcpy(frames, own->frames + STACK_DEPTH - stack->depth, stack->depth * sizeof *frames);
	return own->stack == stack && is_newest(own, begun);
}

void last_stack_clear(struct last_stack *own, bool keeps_frames)
{
	own->range = (struct os_stack_range){ 0 };
	own->keeps_frames = keeps_frames;
	forget(own);
}
