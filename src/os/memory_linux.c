// Reading memory that may not be there, on Linux: the kernel copies.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/memory.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/sandbox.h"
#include "os/stack_range.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "os/unseen.h"

// Where the process is shut in, a filter may end who has the kernel copy. It is asked for the pages then, and nobody else is there to take them away.
__attribute__((no_sanitize("address"))) static bool copy_alone(void *to_, const void *from_, size_t size)
{
	const volatile char *from = from_;
	char *to = to_;

	if (!os_process_is_single())
		return false;
	for (uintptr_t page = round_down((uintptr_t)from, PROBE_PAGE); page < (uintptr_t)from + size; page += PROBE_PAGE)
		if (!os_page_is_readable(page))
			return false;
	for (size_t i = 0; i < size; i++)
		to[i] = from[i];
	return true;
}

static bool copy_by_kernel(void *to, const void *from, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(size_t)from, size };
	ssize_t copied = process_vm_readv(os_process_number(), &local, 1, &remote, 1, 0);

	return copied >= 0 && (size_t)copied == size;
}

bool os_memory_peek(void *to, const void *from, size_t size)
{
	int saved = errno;
	bool copied = os_is_shut_in() ? copy_alone(to, from, size) : copy_by_kernel(to, from, size);

	errno = saved;
	return copied;
}

// Without Yama there is no such call, and no need for it.
void os_memory_let_read(void)
{
	int saved = errno;

	if (os_is_shut_in())
		return;
	os_system_call(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	errno = saved;
}
