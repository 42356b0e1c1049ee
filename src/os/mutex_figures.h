// Figures of mutexes: who had to wait, how often and how long. Taking a free mutex adds one to a number under it, nothing more.
//
// What waits of it is kept apart, by the mutex's address, in a table that nobody touches before the first wait. It has room for
// some hundred mutexes; of those that find none the waits are not known.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "os/mutex.h"

struct mutex_figures {
	uint64_t ops;          // times taken
	uint64_t waits, spins; // of these: after sleeping; after looking at it again and again
	uint64_t wait_ns, most_wait_ns; // asleep: in all, and the longest time
	uint64_t most_waiting; // threads at once
};

// Adds one mutex's figures to a sum. Without its lock: a count may be a moment old.
void mutex_figures_add(struct mutex_figures *to, const struct mutex *mutex);

// Adds a sum to another one.
void mutex_figures_join(struct mutex_figures *to, const struct mutex_figures *from);

// The mutex begins anew. No other lock above its rank is held.
void mutex_figures_reset(struct mutex *mutex);

// For mutexes themselves: it was had after looking at it that many times; a wait begins, and ends after so long.
void mutex_spun(const struct mutex *mutex, unsigned looks);
void mutex_wait_begins(const struct mutex *mutex);
void mutex_wait_ends(const struct mutex *mutex, uint64_t ns);

// How often any thread slept for any mutex, ever; or looked again and again for as long as a sleep takes, for on many processors those who wait are
// many before one sleeps.
uint64_t mutex_waits_ever(void);

// In a child after fork: nobody waits.
void mutex_figures_fork_child(void);
