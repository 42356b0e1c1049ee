// Fence on Linux: membarrier(2).
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/fence.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/system_call.h"

enum { PRIVATE_EXPEDITED = 1 << 3, REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

// A process that has not registered is told EPERM.
bool os_fence(void)
{
	int saved = errno;
	bool done = os_system_call(SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0;

	if (!done && errno == EPERM && os_system_call(SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
		done = os_system_call(SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0;
	errno = saved;
	return done;
}
