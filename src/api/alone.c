// System calls without the background thread.
// SPDX-License-Identifier: BSD-2-Clause
#include "api/alone.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "heap/reclaim.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/thread.h"

long call_alone(long number, long a, long b, long c, long d, long e)
{
	uint64_t before;
	bool dismissed;
	long answer;

	if (reclaim_is_shut_out())
		return os_system_call(number, a, b, c, d, e);
	before = os_signals_block();
	dismissed = reclaim_dismiss();
	answer = os_system_call(number, a, b, c, d, e);
	reclaim_recall(dismissed);
	os_signals_restore(before);
	return answer;
}

// What the kernel refuses whatever the process is: so programs ask what there is.
static bool is_question(long number, long a, long b, long c)
{
	if (number == SYS_prctl)
		return a == PR_SET_NO_NEW_PRIVS ? b != 1 || c != 0 : b == SECCOMP_MODE_FILTER && c == 0;
	return a == SECCOMP_SET_MODE_FILTER ? c == 0 : b != 0 || c != 0;
}

// In a child that a handler forked amid the call it may be 0 again.
static void take_back(void)
{
	unsigned count = atomic_load(&os_is_sandboxed);

	while (count > 0 && !atomic_compare_exchange_weak(&os_is_sandboxed, &count, count - 1)) {}
}

// While it lasts nothing is begun that a filter might forbid; what is given up for good is so when the filter is there.
long call_shut_in(long number, long a, long b, long c, long d, long e)
{
	bool filter = number != SYS_prctl || a == PR_SET_SECCOMP, had_filter = os_has_filter();
	long answer;

	if (is_question(number, a, b, c) || !(had_filter || os_memory_is_own())) // who has a filter already does not ask
		return os_system_call(number, a, b, c, d, e);
	atomic_fetch_add(&os_is_sandboxed, 1);
	if (!had_filter)
		reclaim_shut_in();
	answer = os_system_call(number, a, b, c, d, e);
	if (answer < 0) {
		take_back();
		reclaim_let_out();
	} else if (filter) // it may be a descriptor
		atomic_fetch_add(&os_is_filtered, 1);
	return answer;
}
