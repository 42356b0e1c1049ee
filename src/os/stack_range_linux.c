// What of a stack can be read; and where signal handlers return to.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/stack_range.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/memory.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "os/unseen.h"

enum { RANGE_STEP = 1024 * 1024, OWN_STEP = FRAME_STEP, OWN_LEAST = OWN_STEP / 2 };

// The kernel reads the set before it looks at the nonsensical first argument: EFAULT or EINVAL, and nothing happens.
bool os_page_is_readable(uintptr_t page)
{
	return os_system_call(SYS_rt_sigprocmask, ~0, page, NULL, 8) == 0 || errno != EFAULT;
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

// What is not mapped is not copied; what the kernel keeps from us neither, but then not even our own stack is.
__attribute__((no_sanitize("address"))) bool os_word_copy(struct os_piece *piece, uintptr_t at, uintptr_t *page, uintptr_t *value)
{
	uintptr_t start = round_down(at, PIECE_BYTES), own;

	if (piece->start != start) {
		piece->start = NO_PIECE;
		if (!os_memory_peek(piece->word, (const void *)start, PIECE_BYTES)) {
			if ((os_is_shut_in() && !os_process_is_single()) || os_memory_peek(&own, &start, sizeof own) || !os_word_is_readable(at, page))
				return false;
			*value = *(const uintptr_t *)at;
			return true;
		}
		piece->start = start;
	}
	*value = piece->word[(at - start) / sizeof *value];
	return true;
}

// Downwards, so that what was asked is not asked again.
static void extend(uintptr_t *bound, uintptr_t low, uintptr_t step)
{
	if (*bound - low > step)
		return;
	while (*bound > low && os_page_is_readable(*bound - PROBE_PAGE))
		*bound -= PROBE_PAGE;
}

// The kernel puts the program's arguments above the first thread's stack, the C library what it knows of a thread and the thread's variables above
// another's, on x86-64 the variables below, on AArch64 above.
// A handler that interrupts this finds no range yet and learns one for itself, or a whole one.
static void learn(struct os_stack_range *range)
{
	bool is_first = os_thread_has_first_stack();

	range->step = is_first ? RANGE_STEP : OWN_STEP;
	range->top = is_first ? getauxval(AT_RANDOM) : (uintptr_t)min_size((size_t)__errno_location(), (size_t)pthread_self());
	range->own = round_down(range->top, PROBE_PAGE);
	extend(&range->own, range->own - OWN_LEAST, OWN_LEAST);
	atomic_signal_fence(memory_order_seq_cst);
	range->low = range->own;
}

// The kernel keeps other mappings away from the first thread's stack. Another's is at least as large as a step (glibc), and has no guard below it only if the
// program wished so: who goes from there to a coroutine's stack right below it, makes a longer step, but where the thread's own was used to its end.
void os_stack_range_extend(struct os_stack_range *range, uintptr_t frame)
{
	uintptr_t low = round_down(frame, PROBE_PAGE);

	if (range->low == 0)
		learn(range);
	if (low < range->own)
		extend(&range->own, low, range->step);
	if (range->own < range->low)
		range->low = range->own;
	if (low < range->low)
		extend(&range->low, low, RANGE_STEP);
}

void os_stack_range_arrived(struct os_stack_range *range, uintptr_t frame)
{
	extend(&range->own, round_down(frame, PROBE_PAGE), UINTPTR_MAX);
	if (range->own < range->low)
		range->low = range->own;
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
