// A process that is shut in, or about to be: filters of system calls end it for one that their author did not expect.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "util/bits.h"

// How often it was, or is being. Inherited by children. From then on nothing is asked of the system that can be done without: no file is looked into, no
// thread begun, nor the number asked that the process has.
extern _Atomic unsigned os_is_sandboxed HIDDEN;

// The same of filters alone, that we know of, once they are there: a process that only gave up new privileges may never have one, and a call may be refused.
extern _Atomic unsigned os_is_filtered HIDDEN;

static inline bool os_has_filter(void)
{
	return atomic_load_explicit(&os_is_filtered, memory_order_relaxed) != 0;
}

static inline bool os_is_shut_in(void)
{
	return atomic_load_explicit(&os_is_sandboxed, memory_order_relaxed) != 0;
}
