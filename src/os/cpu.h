// Processors that this process may really use: affinity and the cgroup's quota, fractions rounded up.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// By the affinity of the process, that is of its first thread: others may have been given one processor each. At least 1.
unsigned os_cpus_affine(void);

// By the quota of its cgroups; UINT_MAX when there is none. Reads files: ask once.
unsigned os_cpus_quota(void);

// A hint to the processor that this is a spin loop.
static inline void os_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}
