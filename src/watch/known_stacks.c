// Stacks that a thread found lately.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/known_stacks.h"

#include <string.h>

#include "os/module.h"
#include "util/bits.h"
#include "watch/trace_stacks.h"

enum { WORDS_AT_ONCE = 4 };
_Static_assert(KNOWN_WORDS % WORDS_AT_ONCE == 0, "there is room for the last one again");

static inline struct known_stack **by_caller(struct known_stacks *own, uintptr_t frame)
{
	uintptr_t code = ((const uintptr_t *)frame)[1];

	return &own->by_caller[hash_bits(frame ^ code << 8, LG_CALLERS)];
}

__attribute__((no_sanitize("address"))) static inline bool differs(const struct known_stack *known, const uintptr_t *words, uint32_t i)
{
	return words[known->at[i]] != known->value[i];
}

// No stack: it is not that one. Each word is read only where those before it are as they were, from the frame's own on: as a walk from this frame would read them.
__attribute__((no_sanitize("address"))) static inline struct known stack_if_it_holds(const struct known_stack *known, uintptr_t frame)
{
	const struct known none = { NULL, 0 }, found = { known->stack, known->number };
	const uintptr_t *words = (const uintptr_t *)frame;
	uint32_t count = known->count;

	if (known->frame != frame || count == 0)
		return none;
	if (known->generation != 0 && known->generation != atomic_load_explicit(&os_modules_generation, memory_order_relaxed))
		return none;
	for (uint32_t i = 0; i < count; i += WORDS_AT_ONCE)
		if (differs(known, words, i) || differs(known, words, i + 1) || differs(known, words, i + 2) || differs(known, words, i + 3))
			return none;
	atomic_signal_fence(memory_order_seq_cst);
	return LIKELY(known->stack == found.stack) ? found : none; // a handler may have put another one here meanwhile
}

static void keep_words(struct known_stack *known, const struct os_walk *walk)
{
	uint32_t count = walk->count, begun = walk->begun;
	const struct os_walk_word *word = &walk->word[OS_WALK_MOST - count];

	known->count = 0;
	atomic_signal_fence(memory_order_seq_cst);
	if (count == 0 || count > KNOWN_WORDS || word->at != known->frame + sizeof word->at)
		return;
	for (uint32_t i = 0; i < count; i++) {
		uintptr_t above = word[i].at - known->frame; // of what is below: nearly all there is

		if (above > UINT16_MAX * sizeof above)
			return;
		known->at[i] = (uint16_t)(above / sizeof above);
		known->value[i] = word[i].value;
	}
	for (; count % WORDS_AT_ONCE != 0; count++) { // the last one again
		known->at[count] = known->at[count - 1];
		known->value[count] = known->value[count - 1];
	}
	known->generation = walk->generation;
	known->number = trace_stacks_number(known->stack);
	atomic_signal_fence(memory_order_seq_cst);
	known->count = walk->begun == begun ? count : 0; // else a handler walked meanwhile
}

static struct stack *walk(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder, struct known_stack **at)
{
	struct stack *stack = last_stack_find(&own->last, frame, unwinder);
	struct known_stack *known = &own->known[hash_bits(stack->number, LG_KNOWN_STACKS)];

	if (known->stack == stack && known->frame == frame) {
		keep_words(known, &own->last.walk);
	} else {
		known->count = 0;
		atomic_signal_fence(memory_order_seq_cst);
		known->stack = stack;
		known->frame = frame;
		atomic_signal_fence(memory_order_seq_cst);
		known->count = 0; // a handler may have put another one here meanwhile, and its words
	}
	if (known->next == NULL)
		known->next = known;
	own->any = true;
	*at = known;
	return stack;
}

// Which is not the one that came after the last one the time before.
static __attribute__((noinline)) struct known find(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder)
{
	struct known_stack **of_caller = by_caller(own, frame), *known = *of_caller;
	struct known found = { NULL, 0 };

	if (known != NULL)
		found = stack_if_it_holds(known, frame);
	if (found.stack == NULL)
		found.stack = walk(own, frame, unwinder, &known);
	own->newest->next = *of_caller = known;
	own->newest = known;
	return found;
}

struct known known_stacks_find(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder)
{
	struct known_stack *next = own->newest->next;
	struct known found;

	frame = os_stack_outside(frame);
	found = stack_if_it_holds(next, frame);
	if (UNLIKELY(found.stack == NULL))
		return find(own, frame, unwinder);
	own->newest = next;
	return found;
}

void known_stacks_clear(struct known_stacks *own)
{
	last_stack_clear(&own->last, false);
	if (own->any) { // else the pages of most need not be there
		memset(own->by_caller, 0, sizeof own->by_caller);
		for (size_t i = 0; i < sizeof own->known / sizeof own->known[0]; i++)
			own->known[i].frame = own->known[i].count = 0;
	}
	own->any = false;
	own->newest = own->known->next = own->known;
}
