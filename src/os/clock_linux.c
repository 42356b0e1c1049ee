// Time on Linux: the coarse monotonic clock (no system call), futex, and getrandom.
//
// The clock is the kernel's, not the C library's clock_gettime: that one may be interposed (libfaketime's allocates and holds a lock), and here we
// are amid malloc. So what such a program is told of the time does not reach us.
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

#include "os/system_call.h"
#include "os/thread.h"
#include "os/vdso.h"

#if defined(__aarch64__)
#define CLOCK_NAME "__kernel_clock_gettime"
#else
#define CLOCK_NAME "__vdso_clock_gettime"
#endif

typedef int clock_function(clockid_t which, struct timespec *now);

static int ask_kernel(clockid_t which, struct timespec *now)
{
	return (int)os_system_call(SYS_clock_gettime, which, now);
}

static clock_function *find_clock(void)
{
	clock_function *function;

	*(void **)&function = os_vdso_function(CLOCK_NAME);
	return function != NULL ? function : ask_kernel;
}

static struct timespec read_clock(clockid_t which)
{
	static clock_function *_Atomic found;
	clock_function *function = atomic_load_explicit(&found, memory_order_relaxed);
	struct timespec now = { 0, 0 };

	if (function == NULL) {
		function = find_clock();
		atomic_store_explicit(&found, function, memory_order_relaxed);
	}
	function(which, &now);
	return now;
}

static _Atomic uint64_t ahead; // of the kernel's clock, ms

uint64_t os_clock_ms(void)
{
	struct timespec now = read_clock(CLOCK_MONOTONIC_COARSE);

	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + atomic_load_explicit(&ahead, memory_order_relaxed);
}

void os_clock_go_on(uint64_t ms)
{
	uint64_t now = os_clock_ms();

	if (now < ms)
		atomic_fetch_add(&ahead, ms - now);
}

uint64_t os_clock_epoch_seconds(void)
{
	struct timespec now = read_clock(CLOCK_REALTIME_COARSE);

	return (uint64_t)now.tv_sec;
}

uint64_t os_clock_ns(void)
{
	struct timespec now = read_clock(CLOCK_MONOTONIC);

	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t os_clock_process_us(void)
{
	struct timespec now = read_clock(CLOCK_PROCESS_CPUTIME_ID);

	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t os_clock_thread_ns(void)
{
	struct timespec now = read_clock(CLOCK_THREAD_CPUTIME_ID);

	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms)
{
	struct timespec timeout = { (time_t)(timeout_ms / 1000), (long)(timeout_ms % 1000) * 1000000 };
	int saved = errno;

	os_system_call(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, timeout_ms == 0 ? NULL : &timeout, NULL, 0);
	errno = saved;
}

static void wake(_Atomic uint32_t *word, int most)
{
	int saved = errno;

	os_system_call(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL, NULL, 0);
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
		words[0] = (uint64_t)os_process_number();
	mixed = words[0] ^ (words[1] << 32 | words[1] >> 32);

	// The C library guards stacks and jump buffers with these bytes: let nobody compute them back.
	mixed = (mixed ^ mixed >> 33) * 0xff51afd7ed558ccdu;
	return mixed >> 32;
}
