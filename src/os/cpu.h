// Processors that this process may really use: affinity and the cgroup's quota, fractions rounded up.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// At least 1. Reads files and makes system calls: ask once.
unsigned os_cpus_available(void);

// A hint to the processor that this is a spin loop.
static inline void os_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}
