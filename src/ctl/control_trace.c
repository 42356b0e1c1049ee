// Controls of the event trace.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "ctl/control.h"
#include "heap/sampling.h"
#include "watch/trace.h"

int change_trace_active(struct control_call *call)
{
	bool wanted = call->value.boolean, is_on = trace_is_on();

	if (call->writes && wanted && !is_on && !tracing_start())
		return EFAULT;
	if (call->writes && !wanted)
		tracing_stop(false);
	call->value.boolean = is_on;
	return 0;
}

// What is set holds for later traces; while one is on nothing can be.
static int is_settable(const struct control_call *call)
{
	return call->writes && trace_is_on() ? EFAULT : 0;
}

int change_trace_flag(struct control_call *call)
{
	bool *flag = call->argument == 0 ? &tracing_settings.ring : &tracing_settings.stacks;

	if (is_settable(call) != 0)
		return EFAULT;
	if (call->writes)
		*flag = call->value.boolean;
	call->value.boolean = *flag;
	return 0;
}

int change_trace_limit(struct control_call *call)
{
	uint64_t *limit = call->argument == 0 ? &tracing_settings.bytes : &tracing_settings.seconds;

	if (is_settable(call) != 0)
		return EFAULT;
	if (call->writes)
		*limit = call->value.u64;
	call->value.u64 = *limit;
	return 0;
}

int own_trace_prefix(struct control_call *call)
{
	const char *prefix;
	int failure = control_only_written(call);

	if (failure == 0)
		failure = control_take(call, &prefix, sizeof prefix);
	if (failure != 0)
		return failure;
	if (trace_is_on() || prefix == NULL || strlen(prefix) >= sizeof tracing_settings.prefix)
		return EFAULT;
	memcpy(tracing_settings.prefix, prefix, strlen(prefix) + 1);
	return 0;
}
