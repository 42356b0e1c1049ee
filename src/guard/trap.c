// Trap: a handler of SIGSEGV that tells whose buffer was touched and lets the signal do the rest.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "guard/trap.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "conf/umem_options.h"
#include "guard/fault.h"
#include "guard/table.h"
#include "os/pages.h"
#include "os/stack.h"
#include "os/system_call.h"
#include "os/thread.h"

static bool is_touched(struct guarded *record, void *argument)
{
	return record->fenced && *(uintptr_t *)argument - record->block < record->block_bytes;
}

// Amid its destructor a buffer is still open but for its last page, and then closed before it is held.
static bool is_beyond_end(const struct guarded *record, uintptr_t address)
{
	return record->state == GUARD_LIVE || (record->state == GUARD_LEAVING && address - record->block >= record->block_bytes - os_page_size());
}

// Without the lock: the thread may have it, and the process ends here.
static void tell(uintptr_t address, uintptr_t code)
{
	struct guarded *record = guard_table_each(is_touched, &address);
	struct guarded_copy copy;

	if (record == NULL)
		return;
	memcpy(&copy, record, guard_record_bytes());
	guard_tell(&(struct guard_fault){
		.call = "SIGSEGV", .address = (const void *)address, .buffer = &copy, .code = code,
		.finding = is_beyond_end(record, address) ? "touched beyond the end of a buffer" : "touched after it was freed" });
}

// One that was sent has no instruction that faults again, nor an address: it is sent once more.
static void handle(int number, siginfo_t *information, void *context)
{
	signal(number, SIG_DFL);
	if (information->si_code <= 0)
		os_system_call(SYS_tgkill, os_process_number(), os_thread_number(), number);
	else
		tell((uintptr_t)information->si_addr, os_context_address(context));
}

void guard_trap_init(void)
{
	struct sigaction old, mine = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (umem_options.firewall_bytes != 0 && sigaction(SIGSEGV, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
	    old.sa_handler == SIG_DFL)
		sigaction(SIGSEGV, &mine, NULL);
}
