// Sampling and tracing on and off: the profile's settings from the options, sizes closed and doors.
//
// While sampling is on, the sizes of the fast path are closed, and malloc counts its bytes (heap/sampled.h); off, it costs nothing.
// What was sampled stays known to the profile after sampling ended. Then, with the sizes open, a sampled small object that is
// freed with its size is noticed only when its magazine leaves the thread.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"
#include "watch/black_box.h"
#include "watch/profile.h"
#include "watch/request.h"
#include "watch/sampled_objects.h"
#include "watch/trace.h"

// At first use, after the options were read: on when prof and prof_active are; a trace is begun when one is asked for.
void sampling_init(void);

// Lets observers read this process, if an option asks for it; again in a child.
void sampling_let_read(void);

// For all threads; returns what it was. Takes the lock of the fronts.
bool sampling_set(bool active);

// Forgets all samples, and samples at that rate from now on (profile_reset). Takes the lock of the fronts.
void sampling_reset(unsigned lg_sample);

// This thread's settings: whether it is sampled while sampling is on, and its name in dumps (at most 31 bytes).
bool sampling_thread_set(bool active);
bool sampling_thread_is_on(void);
void sampling_thread_name(const char *name);
const char *sampling_thread_name_get(void);

// Obeys what an observer in another process asks for (watch/request.h), if anything waits, and keeps the black box up to date
// (watch/black_box.h), if there is one. No lock is held.
void sampling_obey(void);
void sampling_tell(void);
static inline void sampling_look(void)
{
	if (request_waits())
		sampling_obey();
	if (UNLIKELY(atomic_load_explicit(&black_box, memory_order_relaxed) != NULL ||
		     atomic_load_explicit(&black_box_wanted, memory_order_relaxed)))
		sampling_tell();
}

// How the event trace (watch/trace.h) of all threads is made: at first as the options say, and changed while none is on.
struct tracing_settings {
	char prefix[TRACE_PREFIX_BYTES]; // "": "vmag"
	uint64_t bytes, seconds;
	bool ring, stacks;
};
extern struct tracing_settings tracing_settings;

// A trace that is on, or came to its limit, is ended first. False: another thread begins one.
bool tracing_start(void);
void tracing_stop(bool at_exit); // of the process

// Whether one is on, or came to its limit.
bool tracing_is_begun(void);

static inline bool sampling_is_on(void)
{
	return atomic_load_explicit(&profile_settings.active, memory_order_relaxed);
}

// Whether somebody watches what becomes of objects of caches: their fast paths are closed then, and those of resource arenas (cache_door).
static inline bool caches_are_watched(void)
{
	return UNLIKELY(trace_is_on() || sampling_is_on() || atomic_load_explicit(&sampled_objects, memory_order_relaxed) != 0);
}

// To the profile: an object of a cache, when it was allocated, and before it is freed.
void sampling_object(const struct vmag_cache *cache, const void *object);
void sampling_object_freed(const void *object);

// The same after the program has moved one, or NULL: freed. Who frees it in its new place before this is not heard: until that address
// is freed again it is told to live.
void sampling_object_moved(const void *from, const void *to);

// An event of an object cache or a resource arena, of this thread.
struct trace_source;
void tracing_tell(unsigned what, const struct trace_source *source, uintptr_t start, size_t size);
