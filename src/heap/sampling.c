// Sampling and tracing on and off.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/sampling.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "conf/options.h"
#include "heap/door.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/memory.h"
#include "os/probe.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "pages/chunks.h"
#include "vmag/format.h"
#include "watch/dump.h"
#include "watch/profile.h"
#include "watch/trace.h"

struct tracing_settings tracing_settings;
static _Atomic bool tracing;
static _Atomic int changed_in; // the process in which a thread begins or ends the trace; 0: none does

// One thread at a time. In a child that was forked meanwhile nobody is at it.
static bool begin_change(void)
{
	int own = os_process_number(), before = atomic_load(&changed_in);

	return before != own && atomic_compare_exchange_strong(&changed_in, &before, own);
}

static void stop(bool at_exit)
{
	if (!atomic_exchange(&tracing, false))
		return;
	doors_open(DOOR_TRACE);
	trace_stop(at_exit);
}

static bool start(bool later)
{
	const struct tracing_settings *settings = &tracing_settings;
	struct trace_wish wish = { settings->prefix[0] != '\0' ? settings->prefix : "vmag", settings->bytes, settings->seconds,
				   settings->ring, settings->stacks, later };
	bool started;

	if (!begin_change())
		return false;
	stop(false);
	started = trace_start(&wish);
	if (started) {
		atomic_store(&tracing, true);
		doors_close(DOOR_TRACE);
	}
	atomic_store(&changed_in, 0);
	return started;
}

static void tracing_init(void)
{
	struct tracing_settings *settings = &tracing_settings;

	memcpy(settings->prefix, options.trace, sizeof settings->prefix);
	settings->bytes = options.trace_bytes;
	settings->seconds = options.trace_seconds;
	settings->ring = options.trace_ring;
	settings->stacks = options.trace_stacks;
	if (options.trace[0] != '\0')
		start(false);
}

bool tracing_start(void)
{
	return start(true);
}

bool tracing_is_begun(void)
{
	return atomic_load(&tracing);
}

void tracing_tell(unsigned what, const struct trace_source *source, uintptr_t start, size_t size)
{
	struct front *front = front_get();

	if (front != NULL)
		trace_other(&front->tracer, what, source, start, size);
}

void sampling_object(const struct vmag_cache *cache, const void *object)
{
	struct profile_thread *self;
	uint32_t tally;

	if (LIKELY(!heap_is_sampled_on(0, cache->object_bytes)))
		return;
	self = &words.front->profile;
	tally = profile_record(self, cache->object_bytes, VMAG_ARENA_CACHES + cache->id);
	if (tally != 0 && !sampled_objects_add(object, tally))
		tally_cancel(tally);
	os_probe_alloc(object, cache->object_bytes, tally_weighted_bytes(tally, cache->object_bytes));
	profile_look(self, chunks_mapped_bytes());
}

void sampling_object_freed(const void *object)
{
	uint32_t tally = sampled_objects_take(object);

	if (LIKELY(tally == 0))
		return;
	os_probe_free(object);
	tally_freed(tally);
}

void sampling_object_moved(const void *from, const void *to)
{
	uint32_t tally = sampled_objects_take(from);
	uint64_t bytes;

	if (LIKELY(tally == 0))
		return;
	bytes = tally_of(tally)->size;
	os_probe_free(from);
	if (to != NULL && sampled_objects_add(to, tally))
		os_probe_alloc(to, bytes, tally_weighted_bytes(tally, bytes));
	else
		tally_freed(tally);
}

static COLD __attribute__((noinline)) void stop_what_is_begun(bool at_exit)
{
	if (!begin_change())
		return;
	stop(at_exit);
	atomic_store(&changed_in, 0);
}

// Every process comes here at its end: one that has no trace asks the system nothing, which a sandbox may not allow.
void tracing_stop(bool at_exit)
{
	if (UNLIKELY(atomic_load(&tracing)))
		stop_what_is_begun(at_exit);
}

void sampling_let_read(void)
{
	if (options.attach_any && options.publish)
		os_memory_let_read();
}

COLD void sampling_init(void)
{
	struct profile_settings *settings = &profile_settings;
	bool leaks = options.prof_leak || options.prof_leak_error, wanted = options.prof || leaks;

	settings->lg_sample = (uint8_t)min_size(options.lg_prof_sample, PROFILE_LG_MOST);
	settings->gdump = wanted && options.prof_gdump;
	settings->lg_interval = wanted ? (int)options.lg_prof_interval : -1;
	settings->thread_active = options.prof_thread_active_init;
	settings->accumulate = options.prof_accum;
	settings->system_thread_names = options.prof_sys_thread_name;
	settings->dump_at_exit = wanted && options.prof_final;
	settings->leak_report = leaks;
	settings->line_bytes = size_class_bytes;
	settings->unwinder = (enum os_unwinder)options.prof_unwinder;
	memcpy(settings->prefix, options.prof_prefix, sizeof options.prof_prefix);
	if (options.black_box[0] != '\0')
		atomic_store(&black_box_wanted, true);
	if (wanted)
		dump_remember_standard_error();
	if (wanted && options.prof_active)
		sampling_set(true);
	tracing_init();
	sampling_let_read();
}

bool sampling_set(bool active)
{
	bool before = atomic_exchange(&profile_settings.active, active);

	fronts_watch_sizes();
	return before;
}

bool sampling_thread_is_on(void)
{
	const struct front *front = words.front;

	return front == NULL || front->profile.random == 0 ? profile_settings.thread_active : !front->profile.silent;
}

bool sampling_thread_set(bool active)
{
	struct front *front = front_get();
	bool before = sampling_thread_is_on();

	if (front != NULL)
		profile_thread_active(&front->profile, words.until, active);
	return before;
}

void sampling_thread_name(const char *name)
{
	struct front *front = front_get();

	if (front != NULL)
		profile_name(&front->profile, name);
}

const char *sampling_thread_name_get(void)
{
	return words.front == NULL ? "" : profile_name_of(&words.front->profile);
}

static bool trace_as_asked(const struct vmag_request *asked)
{
	struct tracing_settings *settings = &tracing_settings;

	if (trace_is_on())
		return false;
	memcpy(settings->prefix, asked->path, sizeof settings->prefix);
	settings->prefix[sizeof settings->prefix - 1] = '\0';
	settings->bytes = asked->value;
	settings->ring = (asked->flag & VMAG_TRACE_RING) != 0;
	settings->stacks = (asked->flag & VMAG_TRACE_STACKS) != 0;
	return tracing_start();
}

void sampling_reset(unsigned lg_sample)
{
	profile_reset(lg_sample);
	fronts_draw_points();
}

// From now on: a point that was drawn by a coarser rate may be an hour away.
static void change_rate(unsigned lg_sample)
{
	if (atomic_exchange(&profile_settings.lg_sample, (uint8_t)lg_sample) != lg_sample)
		fronts_draw_points();
}

static int obey(const struct vmag_request *asked)
{
	switch (asked->what) {
	case VMAG_ASK_PROFILE_ON:
		if (asked->value > 0)
			change_rate((unsigned)min_size(lg_floor(asked->value), PROFILE_LG_MOST));
		sampling_set(true);
		return 0;
	case VMAG_ASK_PROFILE_OFF:
		sampling_set(false);
		return 0;
	case VMAG_ASK_TRACE_ON:
		return os_has_filter() ? EPERM : trace_as_asked(asked) ? 0 : EBUSY;
	case VMAG_ASK_TRACE_OFF:
		tracing_stop(false);
		return 0;
	case VMAG_ASK_REPORT:
		return os_has_filter() ? EPERM : request_report == NULL ? ENOSYS : request_report(asked->path);
	default:
		return ENOSYS;
	}
}

void sampling_obey(void)
{
	struct vmag_request asked;
	int saved = errno;

	if (request_take(&asked))
		request_answer(&asked, options.publish ? obey(&asked) : EPERM);
	errno = saved;
}

void sampling_tell(void)
{
	if (black_box_begin())
		profile_tell_box();
	black_box_look(os_clock_ms(), atomic_load_explicit(&profile_settings.active, memory_order_relaxed),
		       atomic_load_explicit(&profile_settings.lg_sample, memory_order_relaxed), profile_lost());
	if (atomic_load(&black_box_is_behind))
		reclaim_wake();
}
