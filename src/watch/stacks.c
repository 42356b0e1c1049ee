// The table of stacks.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/stacks.h"

#include <string.h>

#include "base/base.h"
#include "os/mutex.h"
#include "util/bits.h"

enum { LG_LISTS = 15, MOST_STACKS = 1 << 20 };

static struct stack unknown;

// By hash; written under the lock, read by anyone.
static struct stack *_Atomic lists[1 << LG_LISTS];

static struct {
	struct mutex lock;
	// Written under lock, read by anyone.
	struct stack *_Atomic newest;
	_Atomic uint32_t count;
} stacks = { .lock = MUTEX_INIT(RANK_STACKS), .newest = &unknown };

// Who is asked for: some frames, and the outermost ones of another stack.
struct sought {
	const uintptr_t *frames, *outer;
	size_t count, kept;
	uint64_t hash;
};

static inline bool is(const struct stack *stack, const struct sought *sought)
{
	return stack->hash == sought->hash && stack->depth == sought->count + sought->kept &&
	       memcmp(stack->frames, sought->frames, sought->count * sizeof *sought->frames) == 0 &&
	       memcmp(stack->frames + sought->count, sought->outer, sought->kept * sizeof *sought->outer) == 0;
}

// With the lock or without: what is in a list stays there as it is.
static struct stack *find(const struct sought *sought)
{
	struct stack *stack = atomic_load_explicit(&lists[sought->hash >> (64 - LG_LISTS)], memory_order_acquire);

	while (stack != NULL && !is(stack, sought))
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

static size_t bytes_of(const struct sought *sought)
{
	return sizeof(struct stack) + (sought->count + sought->kept) * sizeof *sought->frames;
}

static struct stack *make(const struct sought *sought)
{
	struct stack *stack = base_alloc(bytes_of(sought));

	if (stack == NULL)
		return NULL;
	*stack = (struct stack){ .hash = sought->hash, .depth = (uint32_t)(sought->count + sought->kept) };
	memcpy(stack->frames, sought->frames, sought->count * sizeof *sought->frames);
	memcpy(stack->frames + sought->count, sought->outer, sought->kept * sizeof *sought->outer);
	return stack;
}

static __attribute__((noinline)) struct stack *add(const struct sought *sought)
{
	struct stack *fresh = stacks_count() >= MOST_STACKS ? NULL : make(sought), *known;

	if (fresh == NULL)
		return &unknown;
	mutex_lock(&stacks.lock);
	known = find(sought);
	if (known == NULL)
		insert(fresh);
	mutex_unlock(&stacks.lock);
	if (known == NULL)
		return fresh;
	base_free(fresh, bytes_of(sought));
	return known;
}

struct stack *stacks_intern_beyond(const uintptr_t *frames, size_t count, const struct stack *outer, size_t kept, uint64_t hash)
{
	struct sought sought = { .frames = frames, .outer = outer->frames + outer->depth - kept, .count = count, .kept = kept, .hash = hash };
	struct stack *known;

	if (UNLIKELY(count + kept == 0))
		return &unknown;
	known = find(&sought);
	return LIKELY(known != NULL) ? known : add(&sought);
}

struct stack *stacks_intern(const uintptr_t *frames, size_t depth)
{
	uint64_t hash = 0;

	for (size_t i = depth; i-- > 0;)
		hash = stacks_hash(hash, frames[i]);
	return stacks_intern_beyond(frames, depth, &unknown, 0, hash);
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
