// Exported: prctl. The background thread, if the C library does not know of it, is dismissed before a thread gives up what such a one would keep
// (api/identity.c). And a process that gives up new privileges, or sets up a filter of system calls, is about to be shut in (os/sandbox.h): none comes after.
//
// By the system's call and nothing else, as the C library's is: programs call it between fork and exec. A library behind this one that has a prctl, too, is
// not asked.
// Not in the static library: there the program decides what it is.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "api/alone.h"
#include "api/prctl.h"
#include "os/system_call.h"
#include "util/bits.h"

long prctl_wide(int option, long a, long b, long c, long d)
{
	switch (option) {
	case PR_SET_NO_NEW_PRIVS:
	case PR_SET_SECCOMP:
		return call_shut_in(SYS_prctl, option, a, b, c, d);
	case PR_CAPBSET_DROP:
	case PR_SET_SECUREBITS:
	case PR_CAP_AMBIENT:
		return call_alone(SYS_prctl, option, a, b, c, d);
	default:
		return os_system_call(SYS_prctl, option, a, b, c, d);
	}
}

EXPORT int prctl(int option, ...)
{
	long a, b, c, d;
	va_list list;

	va_start(list, option);
	a = va_arg(list, long);
	b = va_arg(list, long);
	c = va_arg(list, long);
	d = va_arg(list, long);
	va_end(list);
	return (int)prctl_wide(option, a, b, c, d);
}
