// System calls without the background thread.
// SPDX-License-Identifier: BSD-2-Clause
#include "api/alone.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
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

static void count(bool counts, bool filter, unsigned by)
{
	if (!counts)
		return;
	atomic_fetch_add(&os_is_sandboxed, by);
	if (filter)
		atomic_fetch_add(&os_is_filtered, by);
}

long call_shut_in(long number, long a, long b, long c, long d, long e)
{
	bool filter = number != SYS_prctl || a == PR_SET_SECCOMP, may_ask = atomic_load(&os_is_filtered) == 0;
	bool counts = atomic_load(&os_is_sandboxed) != 0 || os_memory_is_own(); // who is shut in already does not ask
	long answer;

	count(counts, filter, 1);
	if (counts && may_ask)
		reclaim_shut_in();
	answer = os_system_call(number, a, b, c, d, e);
	count(counts && answer < 0, filter, -1u); // a filter's may be a descriptor
	return answer;
}
