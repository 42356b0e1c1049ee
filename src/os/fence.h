// Fence: an order of memory between this thread and all others of the process, for which the others do nothing.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

// After it: whatever another thread did up to some moment since the call is seen here, and whatever was done here before the call that
// thread sees from that moment on. False: the system has no such thing, or refused it. A system call, which interrupts the processors
// on which the process runs and does not sleep; errno is kept.
bool os_fence(void);
