// Inspecting an address through the page map.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/inspect.h"

#include <errno.h>

#include "heap/arena.h"
#include "os/pages.h"
#include "pages/page_map.h"

// The run in use at an address. Magazines, which are ours alone, are not told.
static struct run *run_of(const void *address)
{
	struct run *run = page_map_run(address);

	return run == NULL || (run->bin != NULL && run->bin->word == 0) ? NULL : run;
}

int heap_arena_of(const void *address, unsigned *id)
{
	const struct run *run = run_of(address);

	if (run == NULL)
		return EINVAL;
	*id = run->arena;
	return 0;
}

static void slab_utilization(struct bin *bin, const struct slab *slab, struct utilization *result)
{
	mutex_lock(&bin->lock);
	*result = (struct utilization){
		.lowest_slab = bin->partial == NULL ? NULL : (void *)bin->partial->key,
		.free_count = slab->run.free_count >> slab->run.lg_times,
		.count = bin->shape.buffers,
		.bytes = bin->shape.slab_bytes,
		.bin_free_count = bin->free_buffers,
		.bin_count = bin->slabs * bin->shape.buffers,
	};
	mutex_unlock(&bin->lock);
}

bool heap_utilization(const void *address, struct utilization *result)
{
	struct run *run = run_of(address);

	*result = (struct utilization){ 0 };
	if (run == NULL)
		return false;
	if (run->bin != NULL)
		slab_utilization(run->bin, (struct slab *)(void *)run, result);
	else
		*result = (struct utilization){ .count = 1, .bytes = round_up(run->bytes, os_page_size()) };
	return true;
}
