// Exported: jemalloc's controls and its report.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "api/needs_malloc.h"
#include "ctl/control.h"
#include "ctl/report.h"
#include "heap/heap.h"
#include "jemalloc/jemalloc.h"
#include "util/bits.h"
#include "vmag/controls.h"

int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
{
	return heap_ready() ? control_by_name(name, oldp, oldlenp, newp, newlen) : EAGAIN;
}

int mallctlnametomib(const char *name, size_t *mib, size_t *length)
{
	return heap_ready() ? control_mib(name, mib, length) : EAGAIN;
}

int mallctlbymib(const size_t *mib, size_t length, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
{
	return heap_ready() ? control_by_mib(mib, length, oldp, oldlenp, newp, newlen) : EAGAIN;
}

void malloc_stats_print(void (*write)(void *, const char *), void *argument, const char *letters)
{
	if (heap_ready())
		report_print(write, argument, letters);
}

EXPORT void vmag_controls_print(void (*put)(void *argument, const char *line), void *argument)
{
	controls_print(put, argument);
}
