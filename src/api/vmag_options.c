// Exported: the table of options.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmag/options.h"

#include "conf/options.h"
#include "heap/heap.h"
#include "util/bits.h"

EXPORT void vmag_options_print(void (*put)(void *argument, const char *line), void *argument)
{
	if (heap_ready())
		options_print(put, argument);
}
