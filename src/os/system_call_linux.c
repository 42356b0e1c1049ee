// System calls on Linux, for each processor.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/system_call.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "os/sandbox.h"

_Atomic unsigned os_is_sandboxed, os_is_filtered;

enum { LAST_ERROR = 4095 }; // the kernel answers an error's negative

// What the caller did not give is whatever lies there; the kernel does not look at it.
struct arguments {
	long a, b, c, d, e, f;
};

#if defined(__x86_64__)
static long enter_kernel(long number, const struct arguments *with)
{
	register long d __asm__("r10") = with->d;
	register long e __asm__("r8") = with->e;
	register long f __asm__("r9") = with->f;
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "a"(number), "D"(with->a), "S"(with->b), "d"(with->c), "r"(d), "r"(e), "r"(f)
			 : "rcx", "r11", "memory");
	return answer;
}
#elif defined(__aarch64__)
static long enter_kernel(long number, const struct arguments *with)
{
	register long call __asm__("x8") = number;
	register long a __asm__("x0") = with->a;
	register long b __asm__("x1") = with->b;
	register long c __asm__("x2") = with->c;
	register long d __asm__("x3") = with->d;
	register long e __asm__("x4") = with->e;
	register long f __asm__("x5") = with->f;

	__asm__ volatile("svc 0" : "+r"(a) : "r"(call), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f) : "memory");
	return a;
}
#else
static long enter_kernel(long number, const struct arguments *with)
{
	long answer = syscall(number, with->a, with->b, with->c, with->d, with->e, with->f);

	return answer == -1 ? -(long)errno : answer;
}
#endif

long os_system_call(long number, ...)
{
	struct arguments with;
	va_list list;
	long answer;

	va_start(list, number);
	with.a = va_arg(list, long);
	with.b = va_arg(list, long);
	with.c = va_arg(list, long);
	with.d = va_arg(list, long);
	with.e = va_arg(list, long);
	with.f = va_arg(list, long);
	va_end(list);
	answer = enter_kernel(number, &with);
	if (answer < 0 && answer >= -LAST_ERROR) {
		errno = (int)-answer;
		return -1;
	}
	return answer;
}
