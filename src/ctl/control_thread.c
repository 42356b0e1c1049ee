// Controls of the calling thread, and of explicit caches.
//
// The exact counters are kept behind the door (heap/door.h), which is closed for a thread once it has asked for them: by the fast path that is there
// (heap/counted.h), or, with thread.peak, the slow one. Threads that never ask pay nothing. Profilers ask in handlers of signals.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "ctl/control.h"
#include "heap/door.h"
#include "heap/explicit.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/size_class.h"
#include "magazine/processors.h"

// From now on what this thread allocates and frees is counted. NULL: no memory for its front.
static struct front *counted(void)
{
	struct front *front = front_get();

	if (front != NULL && (front->words->door & DOOR_COUNT) == 0)
		front_want_door(front, DOOR_COUNT);
	return front;
}

static struct front *counted_with_peak(void)
{
	struct front *front = counted();

	if (front == NULL || (front->words->door & DOOR_PEAK) != 0)
		return front;
	front->peak_base = front->allocated - front->freed;
	front->peak = 0;
	front_want_door(front, DOOR_PEAK);
	return front;
}

int read_thread_allocated(struct control_call *call)
{
	const struct front *front = counted();

	call->value.u64 = front != NULL ? front->allocated : 0;
	return 0;
}

int read_thread_deallocated(struct control_call *call)
{
	const struct front *front = counted();

	call->value.u64 = front != NULL ? front->freed : 0;
	return 0;
}

int read_thread_allocatedp(struct control_call *call)
{
	struct front *front = counted();

	call->value.pointer = &front->allocated;
	return front != NULL ? 0 : EAGAIN;
}

int read_thread_deallocatedp(struct control_call *call)
{
	struct front *front = counted();

	call->value.pointer = &front->freed;
	return front != NULL ? 0 : EAGAIN;
}

int read_thread_peak(struct control_call *call)
{
	const struct front *front = counted_with_peak();

	call->value.u64 = front != NULL ? front->peak : 0;
	return 0;
}

int act_thread_peak_reset(struct control_call *call)
{
	struct front *front = counted_with_peak();

	(void)call;
	if (front == NULL)
		return 0;
	front->peak_base = front->allocated - front->freed;
	front->peak = 0;
	return 0;
}

int change_thread_arena(struct control_call *call)
{
	return call->writes ? thread_set_arena(call->value.number) : thread_arena(&call->value.number);
}

int change_thread_tcache_enabled(struct control_call *call)
{
	if (call->writes)
		thread_set_cache(call->value.boolean);
	call->value.boolean = thread_has_cache();
	return 0;
}

// Magazines of processors are no thread's.
int change_thread_tcache_max(struct control_call *call)
{
	struct front *front = front_get();

	if (front == NULL)
		return EAGAIN;
	if (call->writes && (cpu_nowhere != NULL || front->inside != 0))
		return EFAULT;
	if (call->writes)
		front_keep_up_to(front, max_size(call->value.size, 1)); // the smallest class at least, as jemalloc
	call->value.size = class_size(size_class(front->most_bytes));
	return 0;
}

int act_thread_tcache_flush(struct control_call *call)
{
	(void)call;
	if (!thread_has_cache())
		return EFAULT;
	if (words.front != NULL && words.front->inside == 0)
		front_flush(words.front);
	return 0;
}

int act_thread_idle(struct control_call *call)
{
	struct front *front = words.front;

	(void)call;
	if (front == NULL || front->inside != 0)
		return 0;
	front_flush(front);
	if (arena_users(front->arena) == 1)
		arena_purge(front->arena);
	if (front->common != front->arena && arena_users(front->common) == 1)
		arena_purge(front->common);
	return 0;
}

int own_tcache_create(struct control_call *call)
{
	unsigned id;
	int failure = control_only_read(call);

	if (failure == 0)
		failure = control_must_read(call, sizeof id);
	if (failure == 0)
		failure = explicit_cache_create(&id);
	return failure != 0 ? failure : control_put(call, &id, sizeof id);
}

static int written_cache(struct control_call *call, int act(unsigned id))
{
	unsigned id;
	int failure = control_only_written(call);

	if (failure == 0)
		failure = control_take(call, &id, sizeof id);
	return failure != 0 ? failure : act(id);
}

int own_tcache_flush(struct control_call *call)
{
	return written_cache(call, explicit_cache_flush);
}

int own_tcache_destroy(struct control_call *call)
{
	return written_cache(call, explicit_cache_destroy);
}
