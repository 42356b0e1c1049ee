// Time: a monotonic clock in milliseconds, cheap enough for the slow path, and sleeping on a word.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdint.h>

// Since some moment, the same for all threads; behind by a few milliseconds.
uint64_t os_clock_ms(void);

// In a child of fork, whose clock the kernel may have set back (time_namespaces(7)): it goes on from this moment of the parent's.
void os_clock_go_on(uint64_t ms);

// Seconds since 1970.
uint64_t os_clock_epoch_seconds(void);

// The exact clock, for stamps.
uint64_t os_clock_ns(void);

// Processor time that this process took, in microseconds. A system call.
uint64_t os_clock_process_us(void);

// And that this thread took, in nanoseconds. A system call.
uint64_t os_clock_thread_ns(void);

// Sleeps until the word no longer holds `value`, somebody wakes it, or `timeout_ms` have passed (0: no limit).
void os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms);
void os_word_wake(_Atomic uint32_t *word); // one of those who sleep
void os_word_wake_all(_Atomic uint32_t *word);

// Some bytes that differ from process to process.
uint64_t os_random(void);

// The processor's counter, the cheapest clock there is; what a tick is, comparing it with os_clock_ns tells.
static inline uint64_t os_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return os_clock_ns();
#endif
}
