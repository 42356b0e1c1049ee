// Controls of the sampling profiler. It is always there: prof.active switches it, whether the option prof was given or not.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "ctl/control.h"
#include "heap/sampling.h"
#include "heap/size_class.h"
#include "watch/profile.h"

int change_prof_active(struct control_call *call)
{
	if (call->writes)
		sampling_set(call->value.boolean);
	call->value.boolean = atomic_load(&profile_settings.active);
	return 0;
}

int change_prof_gdump(struct control_call *call)
{
	if (call->writes)
		atomic_store(&profile_settings.gdump, call->value.boolean);
	call->value.boolean = atomic_load(&profile_settings.gdump);
	return 0;
}

int change_prof_thread_active_init(struct control_call *call)
{
	if (call->writes)
		profile_settings.thread_active = call->value.boolean;
	call->value.boolean = profile_settings.thread_active;
	return 0;
}

int change_thread_prof_active(struct control_call *call)
{
	if (call->writes)
		sampling_thread_set(call->value.boolean);
	call->value.boolean = sampling_thread_is_on();
	return 0;
}

int read_prof_interval(struct control_call *call)
{
	call->value.u64 = profile_settings.lg_interval < 0 ? 0 : (uint64_t)1 << profile_settings.lg_interval;
	return 0;
}

int read_prof_lg_sample(struct control_call *call)
{
	call->value.size = atomic_load(&profile_settings.lg_sample);
	return 0;
}

// A string, if one is written.
static int written_string(struct control_call *call, const char **string)
{
	int failure = control_only_written(call);

	*string = NULL;
	if (failure == 0 && call->newp != NULL)
		failure = control_take(call, string, sizeof *string);
	return failure;
}

int own_prof_dump(struct control_call *call)
{
	const char *path;
	int failure = written_string(call, &path);

	if (failure != 0)
		return failure;
	return profile_dump(path) == 0 ? 0 : EFAULT;
}

int own_prof_prefix(struct control_call *call)
{
	const char *prefix;
	int failure = written_string(call, &prefix);

	if (failure != 0)
		return failure;
	if (prefix == NULL)
		return EINVAL;
	if (strlen(prefix) >= sizeof profile_settings.prefix)
		return EFAULT;
	memcpy(profile_settings.prefix, prefix, strlen(prefix) + 1);
	return 0;
}

int own_prof_reset(struct control_call *call)
{
	size_t lg_sample = atomic_load(&profile_settings.lg_sample);
	int failure = control_only_written(call);

	if (failure == 0 && call->newp != NULL)
		failure = control_take(call, &lg_sample, sizeof lg_sample);
	if (failure == 0)
		sampling_reset(lg_sample < PROFILE_LG_MOST ? (unsigned)lg_sample : PROFILE_LG_MOST);
	return failure;
}

static bool is_printable(const char *name)
{
	for (; *name != '\0'; name++) {
		unsigned char letter = (unsigned char)*name;

		if ((letter < ' ' && letter != '\t') || letter >= 127) // as jemalloc in C's locale
			return false;
	}
	return true;
}

// Read or written, not both.
int own_thread_prof_name(struct control_call *call)
{
	bool reads = call->oldp != NULL && call->oldlenp != NULL;
	const char *name = sampling_thread_name_get();
	int failure;

	if (reads && (call->newp != NULL || call->newlen != 0))
		return EPERM;
	if (call->newp == NULL)
		return control_put(call, &name, sizeof name);
	failure = control_take(call, &name, sizeof name);
	if (failure != 0)
		return failure;
	if (name == NULL || !is_printable(name))
		return EFAULT;
	sampling_thread_name(name);
	return 0;
}

enum { OF_LARGE = 2, TOTAL = 1 };

// Bytes and number of the samples of a size class, as jemalloc counts them: not scaled up.
int read_prof_stats(struct control_call *call)
{
	size_t size = class_size(call->index[0] + (call->argument & OF_LARGE ? SLAB_CLASSES : 1));
	uint64_t count = 0;

	for (uint32_t number = 1; number <= tallies_last(); number++) {
		struct tally *tally = tally_of(number);

		if (tally_is_told(tally) && tally->size == size && !tally->retired)
			count += atomic_load_explicit(call->argument & TOTAL ? &tally->total : &tally->live, memory_order_relaxed);
	}
	call->value.pair[0] = count * size;
	call->value.pair[1] = count;
	return 0;
}

int change_prof_backtrace_hook(struct control_call *call)
{
	profile_backtrace *hook = atomic_load(&profile_backtrace_hook);

	if (!call->writes) {
		memcpy(&call->value.pointer, &hook, sizeof hook);
		return 0;
	}
	if (call->value.pointer == NULL)
		return EINVAL;
	memcpy(&hook, &call->value.pointer, sizeof hook);
	atomic_store(&profile_backtrace_hook, hook);
	return 0;
}

int change_prof_dump_hook(struct control_call *call)
{
	profile_dumped *hook = atomic_load(&profile_dumped_hook);

	if (call->writes) {
		memcpy(&hook, &call->value.pointer, sizeof hook);
		atomic_store(&profile_dumped_hook, hook);
	}
	memcpy(&call->value.pointer, &hook, sizeof hook);
	return 0;
}
