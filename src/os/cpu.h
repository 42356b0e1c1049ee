// Processors that this process may use by its affinity.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// By that of its first thread: others may have been given one processor each. At least 1.
unsigned os_cpus_affine(void);

// A hint to the processor that this is a spin loop.
static inline void os_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}
