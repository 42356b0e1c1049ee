// Controls of statistics: fields of the last snapshot, found by their offsets.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "ctl/control.h"
#include "ctl/snapshot.h"
#include "heap/heap.h"

static int read_field(struct control_call *call, const void *figures)
{
	if (figures == NULL)
		return ENOENT;
	memcpy(&call->value, (const char *)figures + call->argument, sizeof(uint64_t));
	return 0;
}

int read_total(struct control_call *call)
{
	return read_field(call, snapshot_totals());
}

int read_zero_reallocs(struct control_call *call)
{
	call->value.size = atomic_load_explicit(&heap_zero_reallocs, memory_order_relaxed);
	return 0;
}

int read_arena(struct control_call *call)
{
	return read_field(call, snapshot_arena(call->index[0]));
}

// What is 0 of each arena that is there.
int read_arena_zero(struct control_call *call)
{
	memset(&call->value, 0, sizeof call->value);
	return snapshot_arena(call->index[0]) != NULL ? 0 : ENOENT;
}

int read_bin(struct control_call *call)
{
	const struct arena_figures *arena = snapshot_arena(call->index[0]);

	return read_field(call, arena != NULL ? &arena->bins[call->index[1]] : NULL);
}

int read_lextent(struct control_call *call)
{
	const struct arena_figures *arena = snapshot_arena(call->index[0]);

	return read_field(call, arena != NULL ? &arena->lextents[call->index[1]] : NULL);
}

int read_dss(struct control_call *call)
{
	call->value.string = control_dss(call->index[0]);
	return snapshot_arena(call->index[0]) != NULL ? 0 : ENOENT;
}
