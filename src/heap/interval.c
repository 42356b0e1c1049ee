// Interval: counting the bytes of all threads.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/interval.h"

#include <stdatomic.h>

#include "conf/options.h"
#include "heap/door.h"

enum { LG_PARTS = 6, PART_MOST = 4 << 20 };

uint64_t interval_part;
void (*interval_report)(void);

static _Atomic uint64_t allocated; // bytes, as threads told

void interval_init(void)
{
	if (options.stats_interval < 0)
		return;
	interval_part = min_size((size_t)options.stats_interval >> LG_PARTS, PART_MOST) | 1;
	doors_close(DOOR_COUNT);
}

// Whether the sum came past a multiple of the interval; by one thread of those that tell at once.
static bool passes(uint64_t bytes)
{
	uint64_t interval = (uint64_t)options.stats_interval | (options.stats_interval == 0);
	uint64_t before = atomic_fetch_add_explicit(&allocated, bytes, memory_order_relaxed);

	return before / interval != (before + bytes) / interval;
}

void interval_tell(struct front *front)
{
	uint64_t bytes = front->allocated - front->interval_told;

	front->interval_told = front->allocated;
	if (!passes(bytes) || interval_report == NULL || front->tells)
		return;
	front->tells = true;
	interval_report();
	front->tells = false;
	front->interval_told = front->allocated; // what whoever got the text allocated does not count
}
