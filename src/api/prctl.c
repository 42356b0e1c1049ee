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

#include "heap/reclaim.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "util/bits.h"

// Before, and with no call after it: a filter may forbid that. What the kernel refuses shuts nobody in: programs ask in this way what it can do.
static int shut_in(int option, long a, long b, long c, long d)
{
	bool own = os_process_is_own();
	int result;

	if (own) {
		atomic_fetch_add(&os_is_sandboxed, 1);
		reclaim_recall(reclaim_dismiss());
	}
	result = (int)os_system_call(SYS_prctl, option, a, b, c, d);
	if (result != 0 && own)
		atomic_fetch_sub(&os_is_sandboxed, 1);
	return result;
}

// No handler is to leave it in the middle by a longjmp.
static int give_up(int option, long a, long b, long c, long d)
{
	uint64_t before = os_signals_block();
	bool dismissed = reclaim_dismiss();
	int result = (int)os_system_call(SYS_prctl, option, a, b, c, d);

	reclaim_recall(dismissed);
	os_signals_restore(before);
	return result;
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
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		return shut_in(option, a, b, c, d);
	if (option == PR_CAPBSET_DROP || option == PR_SET_SECUREBITS || option == PR_CAP_AMBIENT)
		return give_up(option, a, b, c, d);
	return (int)os_system_call(SYS_prctl, option, a, b, c, d);
}
