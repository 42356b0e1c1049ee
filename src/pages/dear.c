// Dear huge pages: what was seen of them, and what follows.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/dear.h"

#include "util/bits.h"

enum { LG_WORTH_DECAY = 6 };

bool dear_leaves(struct dear *dear, size_t chunks, bool may_try)
{
	uint32_t left = atomic_load_explicit(&dear->left, memory_order_relaxed);

	atomic_store_explicit(&dear->left, left - (uint32_t)min_size(chunks, left), memory_order_relaxed);
	return left > 0 && (!may_try || chunks <= left);
}

// On a slow machine they take long, and are worth it: there they are compared again when they take twice as long, or after some forty.
void dear_took(struct dear *dear, uint64_t ns)
{
	uint64_t worth = atomic_load_explicit(&dear->worth_ns, memory_order_relaxed);
	bool is_long = ns > DEAR_FROM_NS;

	if (ns < DEAR_HUGE_NS)
		return;
	if (is_long && ns / 2 > worth) {
		atomic_store_explicit(&dear->took_ns, ns, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&dear->times, 0, memory_order_relaxed);
	atomic_store_explicit(&dear->worth_ns, is_long ? worth - (worth >> LG_WORTH_DECAY) : 0, memory_order_relaxed);
}

bool dear_is_to_compare(const struct dear *dear)
{
	return atomic_load_explicit(&dear->took_ns, memory_order_relaxed) != 0;
}

bool dear_compare(struct dear *dear, uint64_t small_ns, size_t chunks)
{
	uint64_t huge_ns = atomic_exchange_explicit(&dear->took_ns, 0, memory_order_relaxed);
	uint32_t times = atomic_load_explicit(&dear->times, memory_order_relaxed), more = (uint32_t)DEAR_LEAST << times;

	if (huge_ns == 0) // another thread has done it
		return false;
	if (small_ns >= huge_ns) {
		atomic_store_explicit(&dear->worth_ns, huge_ns, memory_order_relaxed);
		atomic_store_explicit(&dear->times, 0, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&dear->left, more - (uint32_t)min_size(chunks, more), memory_order_relaxed);
	if (times < DEAR_MOST_TIMES)
		atomic_store_explicit(&dear->times, times + 1, memory_order_relaxed);
	return true;
}
