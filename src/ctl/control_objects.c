// Controls of objects: whose an address is, how full its slab is; many objects at once.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "ctl/control.h"
#include "heap/extended.h"
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/inspect.h"

int own_arenas_lookup(struct control_call *call)
{
	void *address;
	unsigned id;
	int failure = control_take(call, &address, sizeof address);

	if (failure == 0)
		failure = heap_arena_of(address, &id);
	return failure != 0 ? failure : control_put(call, &id, sizeof id);
}

int own_utilization_query(struct control_call *call)
{
	struct utilization utilization;
	void *address;

	if (call->oldp == NULL || call->oldlenp == NULL || *call->oldlenp != sizeof utilization ||
	    control_take(call, &address, sizeof address) != 0)
		return EINVAL;
	heap_utilization(address, &utilization);
	return control_put(call, &utilization, sizeof utilization);
}

// Of each address: free objects, objects, bytes of its slab.
int own_utilization_batch_query(struct control_call *call)
{
	size_t count = call->newlen / sizeof(void *), *to = call->oldp;
	void *const *addresses = call->newp;

	if (call->oldp == NULL || call->oldlenp == NULL || call->newp == NULL || count == 0 ||
	    call->newlen != count * sizeof(void *) || *call->oldlenp != count * 3 * sizeof(size_t))
		return EINVAL;
	for (size_t i = 0; i < count; i++, to += 3) {
		struct utilization utilization;

		heap_utilization(addresses[i], &utilization);
		to[0] = utilization.free_count;
		to[1] = utilization.count;
		to[2] = utilization.bytes;
	}
	return 0;
}

// jemalloc's batch_alloc_packet_t.
struct batch {
	void **objects;
	size_t count, size;
	int flags;
};

static void *one_of(const struct batch *batch)
{
	return batch->flags == 0 ? fast_malloc(batch->size, heap_malloc_some) : heap_mallocx(batch->size, batch->flags);
}

int own_batch_alloc(struct control_call *call)
{
	struct batch batch;
	size_t made = 0;
	int failure = control_must_read(call, sizeof made);

	if (failure == 0)
		failure = control_take(call, &batch, sizeof batch);
	if (failure != 0)
		return failure;
	while (made < batch.count && (batch.objects[made] = one_of(&batch)) != NULL)
		made++;
	return control_put(call, &made, sizeof made);
}
