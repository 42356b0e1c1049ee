// Exported, where the C library has no names for its list of streams (os/streams.h): fflush. That of all streams waits for each with the list locked, and so would
// a fork, with the heap locked, for that list: for ever, if who has a stream allocates, as getline does.
// Not in the static library: there the program decides what it is, and glibc needs none.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "os/streams.h"
#include "util/bits.h"

#ifndef __GLIBC__

typedef int flush_function(FILE *stream);

static flush_function *real(void)
{
	static void *_Atomic found;
	void *function = atomic_load_explicit(&found, memory_order_relaxed);
	flush_function *flush;

	if (function == NULL) {
		function = dlsym(RTLD_NEXT, "fflush");
		atomic_store_explicit(&found, function, memory_order_relaxed);
	}
	*(void **)&flush = function;
	return flush;
}

EXPORT int fflush(FILE *stream)
{
	int result;

	if (stream != NULL)
		return real()(stream);
	os_streams_flush_begin();
	result = real()(NULL);
	os_streams_flush_end();
	return result;
}

EXPORT int fflush_unlocked(FILE *stream) __attribute__((alias("fflush"))); // as in musl

#endif
