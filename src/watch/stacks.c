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
_Static_assert(sizeof(struct stack) <= CACHE_LINE, "who looks for one meets no more than a line of each");

static struct {
	struct mutex lock;
	// Written under lock, read by anyone.
	struct stack *_Atomic newest;
	_Atomic uint32_t count;
} stacks = { .lock = MUTEX_INIT(RANK_STACKS), .newest = &unknown };

struct sought {
	size_t depth;
	struct stack_hash hash;
	const uintptr_t *frames; // NULL: they need not be kept
};

static inline struct stack *_Atomic *list_of(const struct sought *sought)
{
	return &lists[sought->hash.one >> (64 - LG_LISTS)];
}

static inline bool is(const struct stack *stack, const struct sought *sought)
{
	return stack->hash.one == sought->hash.one && stack->hash.other == sought->hash.other && stack->depth == sought->depth &&
	       (stack->has_frames || sought->frames == NULL);
}

// With the lock or without: what is in a list stays there as it is.
static struct stack *find(const struct sought *sought)
{
	struct stack *stack = atomic_load_explicit(list_of(sought), memory_order_acquire);

	while (stack != NULL && !is(stack, sought))
		stack = stack->next;
	return stack;
}

static void insert(struct stack *stack, struct stack *_Atomic *list)
{
	stack->next = atomic_load_explicit(list, memory_order_relaxed);
	stack->older = atomic_load_explicit(&stacks.newest, memory_order_relaxed);
	stack->number = atomic_fetch_add_explicit(&stacks.count, 1, memory_order_relaxed) + 1;
	atomic_store_explicit(list, stack, memory_order_release);
	if (stack->has_frames)
		atomic_store_explicit(&stacks.newest, stack, memory_order_release);
}

static size_t bytes_of(const struct sought *sought)
{
	return sizeof(struct stack) + (sought->frames == NULL ? 0 : sought->depth * sizeof *sought->frames);
}

static struct stack *make(const struct sought *sought)
{
	struct stack *stack = base_alloc(bytes_of(sought));

	if (stack == NULL)
		return NULL;
	*stack = (struct stack){ .hash = sought->hash, .depth = (uint32_t)sought->depth, .has_frames = sought->frames != NULL };
	if (sought->frames != NULL)
		memcpy(stack->frames, sought->frames, sought->depth * sizeof *sought->frames);
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
		insert(fresh, list_of(sought));
	mutex_unlock(&stacks.lock);
	if (known == NULL)
		return fresh;
	base_free(fresh, bytes_of(sought));
	return known;
}

struct stack *stacks_intern(size_t depth, struct stack_hash hash, const uintptr_t *frames)
{
	struct sought sought = { depth, hash, frames };
	struct stack *known;

	if (UNLIKELY(depth == 0))
		return &unknown;
	known = find(&sought);
	return LIKELY(known != NULL) ? known : add(&sought);
}

struct stack_hash stacks_hash_of(const uintptr_t *frames, size_t depth)
{
	struct stack_hash hash = { 0 };

	for (size_t i = depth; i-- > 0;)
		hash = stacks_hash(hash, frames[i]);
	return hash;
}

struct stack *stacks_newest(void)
{
	return atomic_load_explicit(&stacks.newest, memory_order_acquire);
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
