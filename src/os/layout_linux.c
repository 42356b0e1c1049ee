// Where the code that runs seldom begins, the kernel's windows end: what is mapped along with code that runs reaches to the border of a
// mapping at most, and an advice of its own makes the rest of the library's code one (layout/).
// Only in the shared library, and when the linker lays it out by our lists.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "os/pages.h"
#include "util/bits.h"

extern const char layout_seldom[] HIDDEN, layout_code_end[] HIDDEN; // behind what layout/text.ld lists, and behind all code

__attribute__((constructor(101))) static void end_windows(void)
{
	int saved = errno;
	uintptr_t start = round_up((uintptr_t)layout_seldom, os_page_size());
	uintptr_t end = round_down((uintptr_t)layout_code_end, os_page_size());

	if (start < end)
		madvise((void *)start, end - start, MADV_RANDOM);
	errno = saved;
}
