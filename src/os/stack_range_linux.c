// What of a stack can be read; and where signal handlers return to.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/stack_range.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/memory.h"

enum { RANGE_STEP = 1024 * 1024 };

// The kernel reads the set before it looks at the nonsensical first argument: EFAULT or EINVAL, and nothing happens.
bool os_page_is_readable(uintptr_t page)
{
	return syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) == 0 || errno != EFAULT;
}

bool os_word_is_readable(uintptr_t at, uintptr_t *page)
{
	uintptr_t wanted = round_down(at, PROBE_PAGE);

	if (wanted == *page)
		return true;
	if (!os_page_is_readable(wanted))
		return false;
	*page = wanted;
	return true;
}

// Behind the last word of all there is none: its page is not readable.
bool os_words_are_readable(uintptr_t first, uintptr_t *page)
{
	return os_word_is_readable(first, page) && os_word_is_readable(first + sizeof first, page);
}

// The kernel puts the program's arguments above the first thread's stack, the C library a thread's variables above another's.
static uintptr_t stack_top(void)
{
	return os_thread_number() == getpid() ? getauxval(AT_RANDOM) : (uintptr_t)__errno_location();
}

void os_stack_range_extend(struct os_stack_range *range, uintptr_t frame)
{
	uintptr_t low = round_down(frame, PROBE_PAGE), top;

	if (range->top == 0) {
		range->top = stack_top();
		range->low = round_down(range->top, PROBE_PAGE);
	}
	top = range->low;
	if (low >= top || top - low > RANGE_STEP)
		return;
	for (uintptr_t page = low; page < top; page += PROBE_PAGE)
		if (!os_page_is_readable(page))
			return;
	range->low = low;
}

// rt_sigreturn, as the C library or the kernel's own page has it there; debuggers know it by that, too.
#if defined(__x86_64__)
static const uint8_t handlers_return[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
#else
static const uint32_t handlers_return[] = { 0xd2801168, 0xd4000001 };
#endif

bool os_returns_from_handler(uintptr_t at)
{
	char code[sizeof handlers_return];

	return os_memory_peek(code, (const void *)at, sizeof code) && memcmp(code, handlers_return, sizeof code) == 0;
}
