// Processors on Linux: sched_getaffinity.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/cpu.h"

#include <sys/syscall.h>

#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/thread.h"

unsigned os_cpus_affine(void)
{
	// Larger than cpu_set_t: the kernel refuses a mask shorter than its own.
	unsigned long mask[8192 / (8 * sizeof(unsigned long))];
	long bytes = os_is_shut_in() ? 0 : os_system_call(SYS_sched_getaffinity, os_process_number(), sizeof mask, mask);
	unsigned count = 0;

	// Bit by bit: a call of the compiler's library would make more of its pages resident than the loop is long.
	for (long i = 0; i < bytes / (long)sizeof mask[0]; i++)
		for (; mask[i] != 0; mask[i] &= mask[i] - 1)
			count++;
	return count == 0 ? 1 : count;
}
