// Interval: statistics printed each time that the threads together have allocated so many bytes (option stats_interval).
//
// Exact counters are then on in all threads. A thread tells its bytes in parts of a sixty-fourth of the interval, 4 MiB at most, on the slow
// path: nothing is done for this while the option is not set.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/front.h"
#include "util/bits.h"

// At first use, after the options were read.
void interval_init(void);

// After an allocation of a thread that counts, with no lock held.
extern uint64_t interval_part; // bytes; 0: the option is not set
void interval_tell(struct front *front);
static inline void interval_look(struct front *front)
{
	if (UNLIKELY(interval_part != 0) && front->allocated - front->interval_told >= interval_part)
		interval_tell(front);
}

// Prints the statistics; set once by the floor above, NULL: there is none.
extern void (*interval_report)(void);
