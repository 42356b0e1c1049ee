// Stacks that a thread found lately.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/known_stacks.h"

#include "os/module.h"
#include "util/bits.h"

static struct known_stack *place_of(struct known_stacks *own, uintptr_t frame)
{
	uintptr_t code = ((const uintptr_t *)frame)[1];

	return &own->known[(frame ^ code << 8) * 0x9e3779b97f4a7c15u >> (64 - LG_KNOWN_STACKS)];
}

// Each word is read only where those before it are as they were, from the frame's own on: as a walk from this frame would read them.
__attribute__((no_sanitize("address"))) static bool holds(const struct known_stack *known, uintptr_t frame)
{
	if (known->frame != frame || known->count == 0)
		return false;
	if (known->generation != 0 && known->generation != atomic_load_explicit(&os_modules_generation, memory_order_relaxed))
		return false;
	for (uint32_t i = 0; i < known->count; i++)
		if (*(const uintptr_t *)known->word[i].at != known->word[i].value)
			return false;
	return true;
}

static void keep_words(struct known_stack *known, const struct os_walk *walk)
{
	const struct os_walk_word *word = &walk->word[OS_WALK_MOST - walk->count];

	known->count = 0;
	if (walk->count == 0 || walk->count > KNOWN_WORDS || word->at != known->frame + sizeof word->at)
		return;
	for (uint32_t i = 0; i < walk->count; i++) {
		if (word[i].at < known->frame)
			return;
		known->word[i] = (struct known_word){ word[i].at, word[i].value };
	}
	known->generation = walk->generation;
	known->count = walk->count;
}

static __attribute__((noinline)) struct stack *find(struct known_stacks *own, struct known_stack *known, uintptr_t frame, enum os_unwinder unwinder)
{
	struct stack *stack = last_stack_find(&own->last, frame, unwinder);

	if (known->stack == stack && known->frame == frame)
		keep_words(known, &own->last.walk);
	else
		known->count = 0;
	known->stack = stack;
	known->frame = frame;
	own->any = true;
	return stack;
}

struct stack *known_stacks_find(struct known_stacks *own, uintptr_t frame, enum os_unwinder unwinder)
{
	struct known_stack *known;

	frame = os_stack_outside(frame);
	known = place_of(own, frame);
	return LIKELY(holds(known, frame)) ? known->stack : find(own, known, frame, unwinder);
}

void known_stacks_clear(struct known_stacks *own)
{
	last_stack_clear(&own->last);
	if (!own->any) // whose pages need not be there
		return;
	own->any = false;
	for (size_t i = 0; i < sizeof own->known / sizeof own->known[0]; i++)
		own->known[i].frame = own->known[i].count = 0;
}
