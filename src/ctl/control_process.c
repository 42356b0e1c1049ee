// Controls of the process: version, epoch, background thread, config.*, opt.*, and answers that never change.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "conf/options.h"
#include "ctl/control.h"
#include "ctl/snapshot.h"
#include "guard/report.h"
#include "heap/arena.h"
#include "heap/reclaim.h"
#include "jemalloc/jemalloc.h"
#include "util/assert.h"
#include "util/bits.h"

enum { WORD_BYTES = 24 };

int absent(struct control_call *call)
{
	(void)call;
	return ENOENT;
}

int read_zero(struct control_call *call)
{
	memset(&call->value, 0, sizeof call->value);
	return 0;
}

int read_yes(struct control_call *call)
{
	call->value.boolean = true;
	return 0;
}

int read_no(struct control_call *call)
{
	call->value.boolean = false;
	return 0;
}

int act_reset_mutexes(struct control_call *call)
{
	(void)call;
	snapshot_reset_mutexes();
	return 0;
}

int read_version(struct control_call *call)
{
	call->value.string = JEMALLOC_VERSION;
	return 0;
}

// Written first, then read.
int own_epoch(struct control_call *call)
{
	uint64_t epoch;

	if (call->newp != NULL && call->newlen != sizeof epoch)
		return EINVAL;
	epoch = call->newp != NULL ? snapshot_take() : snapshot_epoch();
	return control_put(call, &epoch, sizeof epoch);
}

int change_background_thread(struct control_call *call)
{
	if (call->writes)
		reclaim_set_background(call->value.boolean);
	call->value.boolean = options.background_thread;
	return 0;
}

int change_max_background_threads(struct control_call *call)
{
	static _Atomic size_t most;

	if (call->writes) {
		if (call->value.size == 0 || call->value.size > options.max_background_threads)
			return EINVAL;
		most = call->value.size;
	}
	call->value.size = most != 0 ? most : options.max_background_threads;
	return 0;
}

int read_debug(struct control_call *call)
{
	call->value.boolean = config_debug;
	return 0;
}

int read_build_options(struct control_call *call)
{
	call->value.string = VMAG_MALLOC_CONF;
	return 0;
}

// A word as a string of its own, one place an option: its list of words has no zeroes in it.
static const char *word_of(const struct option *option)
{
	static char words[OPTIONS_MOST][WORD_BYTES];
	char *place = words[option - option_table];
	size_t length;
	const char *word = option_word(option, &length);

	memcpy(place, word, min_size(length, WORD_BYTES - 1)); // the rest stays zero: options with words do not change
	return place;
}

int read_option(struct control_call *call)
{
	const struct option *option = &option_table[call->argument];

	if (option->kind == OPTION_WORDS)
		call->value.string = word_of(option);
	else if (option->kind == OPTION_TEXT)
		call->value.string = option_value(option);
	else
		call->value.i64 = option_number(option);
	if (option_value(option) == &options.narenas && options.narenas == 0)
		call->value.number = arenas_automatic_most(); // what the default came to
	return 0;
}

// The argument is the place of the source in the order of reading.
int read_source(struct control_call *call)
{
	call->value.string = options_source((unsigned)call->argument);
	return call->value.string != NULL ? 0 : ENOENT;
}

int own_safety_check_abort(struct control_call *call)
{
	int failure = control_only_written(call);
	bool dismissed;

	if (failure != 0)
		return failure;
	dismissed = reclaim_dismiss(); // the background thread may be one that calls nothing of the program's
	failure = control_take(call, &guard_told, sizeof guard_told);
	reclaim_replace(dismissed);
	return failure;
}
