// Bound: what a thread's magazines may come to hold all together, as UMEM_OPTIONS=perthread_cache=SIZE says.
//
// A class has magazines only if all that the front has would stay within the bound were they as large as the class's ever become,
// and full: so nothing is counted while they are used, and a magazine of any front may take the place of any other. A class for which
// there is no room goes to its slabs each time, until another was not used for a while. Without the option there is no bound.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "conf/umem_options.h"
#include "heap/front.h"

enum { LG_BOUND_PARTS = 5 }; // a magazine holds no more than such a part of it, as far as two rounds are no more

// Whether the front stays within the bound when the class comes to have so many magazines.
bool bound_leaves_room(const struct front *front, unsigned class, size_t magazines);

// Whether the front may have magazines of the class, loaded and previous; and one for objects of other arenas.
static inline bool bound_allows(const struct front *front, unsigned class)
{
	return LIKELY(umem_options.thread_cache == UMEM_UNBOUNDED) || front->loaded[class] != NULL ||
	       front->previous[class] != NULL || bound_leaves_room(front, class, 2);
}

static inline bool bound_allows_outbound(const struct front *front, unsigned class)
{
	return LIKELY(umem_options.thread_cache == UMEM_UNBOUNDED) || front->outbound[class].magazine != NULL ||
	       bound_leaves_room(front, class, 1);
}
