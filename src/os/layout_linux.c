// Where the kernel's windows end: what is mapped along with code that runs reaches to the border of a mapping at most, and an advice of
// its own makes a stretch of the library's code one (layout/). This runs before any of that code is mapped, and calls none of it.
// Only in the shared library, and when the linker lays it out by our lists.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "util/bits.h"

extern const char layout_soon[] HIDDEN, layout_larger[] HIDDEN, layout_threads[] HIDDEN, layout_background[] HIDDEN,
	layout_seldom[] HIDDEN; // layout/text.ld
extern const char layout_end[] HIDDEN; // of all code (layout/layout.cmake)

static void set_apart(const char *from, const char *to)
{
	size_t page = getauxval(AT_PAGESZ);
	uintptr_t start = round_up((uintptr_t)from, page), end = round_up((uintptr_t)to, page);

	if (start < end)
		madvise((void *)start, end - start, MADV_RANDOM);
}

// Every other stretch: what lies between two that are set apart is one of its own, too. Before all other constructors.
__attribute__((constructor(100))) static void end_windows(void)
{
	int saved = errno;

	set_apart(layout_soon, layout_larger);
	set_apart(layout_threads, layout_background);
	set_apart(layout_seldom, layout_end);
	errno = saved;
}
