// Bound: what the classes in use may come to hold, summed up when another one asks.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/bound.h"
#include "heap/capacity.h"

// With the round that is fetched ahead of them.
static size_t most_bytes(unsigned class, size_t magazines)
{
	return (magazines * front_grown_rounds(class) + (magazines > 1 && class < SMALL_CLASSES)) * class_size(class);
}

static size_t magazines_of(const struct front *front, unsigned class)
{
	bool in_use = front->loaded[class] != NULL || front->previous[class] != NULL;

	return (in_use ? 2u : 0u) + (front->outbound[class].magazine != NULL);
}

bool bound_leaves_room(const struct front *front, unsigned class, size_t magazines)
{
	size_t bytes = most_bytes(class, magazines);

	for (unsigned other = 1; other < CLASSES && bytes <= umem_options.thread_cache; other++)
		bytes += most_bytes(other, magazines_of(front, other));
	return bytes <= umem_options.thread_cache;
}
