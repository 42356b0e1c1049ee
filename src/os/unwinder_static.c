// In a static program: when the system's unwinder can be asked. Before and afterwards it aborts.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/stack.h"

bool os_unwinder_is_told;

// The first constructor without a priority is the C library's, which tells the unwinder of the program's tables; the last such destructor takes that back.
__attribute__((constructor)) static void behind_the_first(void)
{
	os_unwinder_is_told = true;
}

__attribute__((destructor)) static void before_the_last(void)
{
	os_unwinder_is_told = false;
}
