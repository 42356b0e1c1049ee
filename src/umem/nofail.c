// UMEM_NOFAIL: the callback, and the exit that one thread alone performs.
// SPDX-License-Identifier: BSD-2-Clause
#include "umem/nofail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <umem.h>
#include <unistd.h>

#include "guard/report.h"
#include "os/thread.h"
#include "util/bits.h"

enum { NO_CALLBACK_STATUS = 255 };

static umem_nofail_callback_t *_Atomic callback;
static _Atomic int exiting; // the process that does; a child of fork does not
static __thread bool exits_here;

EXPORT void umem_nofail_callback(umem_nofail_callback_t *function)
{
	atomic_store_explicit(&callback, function, memory_order_release);
}

static _Noreturn void exit_once(int status)
{
	if (exits_here && atomic_load(&exiting) == os_process_number())
		guard_report("umem_alloc", GUARD_NOWHERE, "no memory for a handler of exit that says UMEM_NOFAIL, and is to exit again", 0);
	if (atomic_exchange(&exiting, os_process_number()) != os_process_number()) {
		exits_here = true;
		exit(status);
	}
	for (;;)
		pause();
}

bool nofail_retry(int flags)
{
	umem_nofail_callback_t *function = atomic_load_explicit(&callback, memory_order_acquire);
	int answer;

	if (!(flags & UMEM_NOFAIL))
		return false;
	answer = function != NULL ? function() : UMEM_CALLBACK_EXIT(NO_CALLBACK_STATUS);
	if (answer != UMEM_CALLBACK_RETRY)
		exit_once((answer & ~0xff) == 0x100 ? answer & 0xff : NO_CALLBACK_STATUS);
	return true;
}
