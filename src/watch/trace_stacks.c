// The stacks of an event trace, and names.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/trace_stacks.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "os/mutex.h"
#include "watch/trace.h"
#include "watch/trace_facts.h"

enum { STACK_MOST = 24 + STACK_DEPTH * 10 }; // bytes of one
_Static_assert((int)STACK_MOST >= (int)FACTS_NAME_MOST, "where there is room for a stack there is for a name");

_Atomic uint32_t trace_stacks_file; // written under the lock

struct filled {
	struct facts facts;
	struct filled *next;
	uint32_t written; // stacks, of it
};

static struct {
	struct mutex lock;
	// Under lock.
	struct filled *filling; // the latest, or NULL
	struct filled *full, *unused;
	uint32_t numbers;
	size_t depth; // of the last stack in `filling`; 0: there is none
	uintptr_t frames[STACK_DEPTH];
} stacks = { .lock = MUTEX_INIT(RANK_TRACE_STACKS) };

static void move(struct filled **from, struct filled **to)
{
	struct filled *chunk = *from;

	*from = chunk->next;
	chunk->next = *to;
	*to = chunk;
}

static struct filled **end_of(struct filled **list)
{
	while (*list != NULL)
		list = &(*list)->next;
	return list;
}

// Whether there is a chunk with room for a stack; false: no memory. The lock is given up meanwhile.
static bool make_room(void)
{
	while (stacks.filling == NULL || facts_room(&stacks.filling->facts) < STACK_MOST) {
		struct filled *fresh = stacks.unused;

		if (fresh == NULL) {
			mutex_unlock(&stacks.lock);
			fresh = base_alloc_pages(sizeof *fresh);
			mutex_lock(&stacks.lock);
			if (fresh == NULL)
				return false;
			move(&fresh, &stacks.unused);
			continue;
		}
		if (stacks.filling != NULL)
			move(&stacks.filling, end_of(&stacks.full)); // in the file's order, for a ring keeps those that were written last
		move(&stacks.unused, &stacks.filling);
		facts_clear(&fresh->facts);
		fresh->written = 0;
		stacks.depth = 0;
	}
	return true;
}

// How many frames, from the outermost on, it has in common with the stack before.
static size_t shared_frames(const uintptr_t *frames, size_t depth)
{
	size_t most = min_size(depth, stacks.depth), shared = 0;

	while (shared < most && frames[depth - 1 - shared] == stacks.frames[stacks.depth - 1 - shared])
		shared++;
	return shared;
}

static void add(uint32_t number, const uintptr_t *frames, size_t depth)
{
	struct facts *facts = &stacks.filling->facts;
	size_t shared = shared_frames(frames, depth);
	uintptr_t address = 0;

	*facts->at++ = VMAG_TRACE_STACK;
	facts->at = add_varint(add_varint(add_varint(facts->at, number), depth), shared);
	for (size_t i = 0; i < depth - shared; i++) {
		int64_t step = (int64_t)(frames[i] - address);

		facts->at = add_varint(facts->at, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
		address = frames[i];
	}
	facts->head.events++;
	memcpy(stacks.frames, frames, depth * sizeof *frames);
	stacks.depth = depth;
}

uint32_t trace_stacks_tell(struct stack *stack, const uintptr_t *frames)
{
	uint32_t number = 0;

	if (UNLIKELY(mutexes_held != 0)) // a handler allocates that came amid a lock, this one perhaps
		return 0;
	mutex_lock(&stacks.lock);
	if (make_room() && (number = trace_stacks_number(stack)) == 0) {
		number = ++stacks.numbers;
		add(number, frames, stack->depth);
		atomic_store_explicit(&stack->told, (uint64_t)trace_stacks_file << 32 | number, memory_order_relaxed);
	}
	mutex_unlock(&stacks.lock);
	return number;
}

void trace_stacks_name(const struct trace_source *source)
{
	uint32_t file = atomic_load_explicit(&trace_stacks_file, memory_order_relaxed);

	if (LIKELY(atomic_load_explicit(source->told, memory_order_relaxed) == file) || mutexes_held != 0)
		return;
	mutex_lock(&stacks.lock);
	if (make_room() && atomic_load_explicit(source->told, memory_order_relaxed) != trace_stacks_file) {
		facts_add_name(&stacks.filling->facts, source->tag, source->number, source->bytes, source->name);
		atomic_store_explicit(source->told, trace_stacks_file, memory_order_relaxed);
	}
	mutex_unlock(&stacks.lock);
}

void trace_stacks_begin(void)
{
	mutex_lock(&stacks.lock);
	if (stacks.filling != NULL)
		move(&stacks.filling, &stacks.unused);
	while (stacks.full != NULL)
		move(&stacks.full, &stacks.unused);
	stacks.numbers = 0;
	trace_stacks_file++;
	mutex_unlock(&stacks.lock);
}

static uint32_t *copy_chunk(struct filled *chunk, struct facts *copy)
{
	size_t bytes = (size_t)(chunk->facts.at - chunk->facts.payload);

	memcpy(copy, &chunk->facts, offsetof(struct facts, payload) + bytes);
	copy->at = copy->payload + bytes;
	chunk->written = chunk->facts.head.events;
	return &chunk->facts.head.sequence;
}

uint32_t *trace_stacks_next(struct facts *copy)
{
	uint32_t *sequence = NULL;

	mutex_lock(&stacks.lock);
	if (stacks.full != NULL) {
		copy_chunk(stacks.full, copy);
		move(&stacks.full, &stacks.unused);
		sequence = &copy->head.sequence;
	} else if (stacks.filling != NULL && stacks.filling->written < stacks.filling->facts.head.events)
		sequence = copy_chunk(stacks.filling, copy);
	mutex_unlock(&stacks.lock);
	return sequence;
}

void trace_stacks_fork_prepare(void)
{
	mutex_fork_lock(&stacks.lock);
}

void trace_stacks_fork_done(void)
{
	mutex_fork_unlock(&stacks.lock);
}
