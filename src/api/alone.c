// System calls without the background thread.
// SPDX-License-Identifier: BSD-2-Clause
#include "api/alone.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap/reclaim.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/thread.h"

long call_alone(long number, long a, long b, long c, long d, long e)
{
	uint64_t before = os_signals_block();
	bool dismissed = reclaim_dismiss();
	long answer = os_system_call(number, a, b, c, d, e);

	reclaim_recall(dismissed);
	os_signals_restore(before);
	return answer;
}

long call_shut_in(long number, long a, long b, long c, long d, long e)
{
	bool counts = atomic_load(&os_is_sandboxed) != 0 || os_memory_is_own(); // who is shut in already does not ask
	long answer;

	if (counts) {
		atomic_fetch_add(&os_is_sandboxed, 1);
		reclaim_recall(reclaim_dismiss());
	}
	answer = os_system_call(number, a, b, c, d, e);
	if (counts && answer < 0) // a filter's may be a descriptor
		atomic_fetch_sub(&os_is_sandboxed, 1);
	return answer;
}
