// Time on Linux: the coarse monotonic clock (no system call), futex, and getrandom.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t os_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t os_clock_epoch_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (uint64_t)now.tv_sec;
}

uint64_t os_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t os_clock_process_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms)
{
	struct timespec timeout = { (time_t)(timeout_ms / 1000), (long)(timeout_ms % 1000) * 1000000 };
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, timeout_ms == 0 ? NULL : &timeout, NULL, 0);
	errno = saved;
}

static void wake(_Atomic uint32_t *word, int most)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL, NULL, 0);
	errno = saved;
}

void os_word_wake(_Atomic uint32_t *word)
{
	wake(word, 1);
}

void os_word_wake_all(_Atomic uint32_t *word)
{
	wake(word, INT_MAX);
}

// The kernel's 16 bytes of the auxiliary vector: 32 random bits; no system call, nothing to fail, different at every exec.
uint64_t os_random(void)
{
	const void *bytes = (const void *)getauxval(AT_RANDOM);
	uint64_t words[2] = { 0, 0 };
	uint64_t mixed;

	if (bytes != NULL)
		memcpy(words, bytes, sizeof words); // it is not aligned
	else
		words[0] = (uint64_t)getpid();
	mixed = words[0] ^ (words[1] << 32 | words[1] >> 32);

	// The C library guards stacks and jump buffers with these bytes: let nobody compute them back.
	mixed = (mixed ^ mixed >> 33) * 0xff51afd7ed558ccdu;
	return mixed >> 32;
}
