// The table of stacks.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/stacks.h"

#include <string.h>

#include "base/base.h"
#include "os/mutex.h"

enum { LG_LISTS = 13, MOST_STACKS = 1 << 20 };

static struct stack unknown;

// By hash; written under the lock, read by anyone.
static struct stack *_Atomic lists[1 << LG_LISTS];

static struct {
	struct mutex lock;
	// Written under lock, read by anyone.
	struct stack *_Atomic newest;
	_Atomic uint32_t count;
} stacks = { .lock = MUTEX_INIT(RANK_STACKS), .newest = &unknown };

static uint64_t hash_of(const uintptr_t *frames, size_t depth)
{
	uint64_t hash = depth;

	for (size_t i = 0; i < depth; i++) {
		hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return hash;
}

// With the lock or without: what is in a list stays there as it is.
static struct stack *find(const uintptr_t *frames, size_t depth, uint64_t hash)
{
	struct stack *stack = atomic_load_explicit(&lists[hash >> (64 - LG_LISTS)], memory_order_acquire);

	while (stack != NULL &&
	       (stack->hash != hash || stack->depth != depth || memcmp(stack->frames, frames, depth * sizeof *frames) != 0))
		stack = stack->next;
	return stack;
}

static void insert(struct stack *stack)
{
	struct stack *_Atomic *list = &lists[stack->hash >> (64 - LG_LISTS)];

	stack->next = *list;
	stack->older = atomic_load_explicit(&stacks.newest, memory_order_relaxed);
	stack->number = atomic_fetch_add_explicit(&stacks.count, 1, memory_order_relaxed) + 1;
	atomic_store_explicit(list, stack, memory_order_release);
	atomic_store_explicit(&stack->older->newer, stack, memory_order_release);
	atomic_store_explicit(&stacks.newest, stack, memory_order_release);
}

static struct stack *make(const uintptr_t *frames, size_t depth, uint64_t hash)
{
	struct stack *stack = base_alloc(sizeof *stack + depth * sizeof *frames);

	if (stack == NULL)
		return NULL;
	*stack = (struct stack){ .hash = hash, .depth = (uint32_t)depth };
	memcpy(stack->frames, frames, depth * sizeof *frames);
	return stack;
}

struct stack *stacks_intern(const uintptr_t *frames, size_t depth)
{
	uint64_t hash = hash_of(frames, depth);
	struct stack *known, *fresh;

	if (depth == 0 || stacks_count() >= MOST_STACKS)
		return &unknown;
	known = find(frames, depth, hash);
	if (known != NULL)
		return known;
	fresh = make(frames, depth, hash);
	if (fresh == NULL)
		return &unknown;
	mutex_lock(&stacks.lock);
	known = find(frames, depth, hash);
	if (known == NULL)
		insert(fresh);
	mutex_unlock(&stacks.lock);
	if (fresh->number != 0)
		return fresh;
	base_free(fresh, sizeof *fresh + depth * sizeof *frames);
	return known;
}

struct stack *stacks_newest(void)
{
	return atomic_load_explicit(&stacks.newest, memory_order_acquire);
}

struct stack *stacks_after(struct stack *stack)
{
	return atomic_load_explicit(&(stack == NULL ? &unknown : stack)->newer, memory_order_acquire);
}

uint32_t stacks_count(void)
{
	return atomic_load_explicit(&stacks.count, memory_order_relaxed);
}

void stacks_fork_prepare(void)
{
	mutex_fork_lock(&stacks.lock);
}

void stacks_fork_done(void)
{
	mutex_fork_unlock(&stacks.lock);
}
