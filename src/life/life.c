// Life of the process: fork handlers, the report that `vmag run` asks for, and the last look at freed objects.
// SPDX-License-Identifier: BSD-2-Clause
#include "life/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cache/table.h"
#include "conf/options.h"
#include "ctl/control.h"
#include "ctl/ledger.h"
#include "ctl/report.h"
#include "ctl/snapshot.h"
#include "ctl/stats.h"
#include "heap/debug.h"
#include "heap/cpu_front.h"
#include "heap/explicit.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/interval.h"
#include "heap/sampling.h"
#include "life/background.h"
#include "os/file.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "os/sandbox.h"
#include "os/streams.h"
#include "os/thread.h"
#include "util/format.h"
#include "watch/black_box.h"
#include "watch/dump.h"
#include "watch/profile.h"
#include "watch/request.h"
#include "watch/trace_file.h"

// Forks in a signal handler that came amid an operation of ours, or amid another fork: with locks to take, the thread would wait for itself. The
// child has them as they were. It may do no more than what is safe in a handler, so it does not miss them; where it leaves the handler it goes on as the
// parent does.
static __thread unsigned forks_amid;
// A fork is under way that holds no locks by which one could tell: that of a process of one thread, and every fork until it has taken them. The thread's own:
// glibc calls the handlers of two threads' forks side by side.
static __thread bool alone;

static bool fork_begins_amid(void)
{
	if (mutexes_held == 0 && !alone)
		return false;
	forks_amid++;
	return true;
}

static bool fork_ends_amid(void)
{
	if (forks_amid == 0)
		return false;
	forks_amid--;
	return true;
}

static void fork_prepare(void)
{
	if (fork_begins_amid())
		return;
	alone = true;
	if (heap_fork_prepare_alone())
		return;
	os_process_forks();
	os_streams_fork_lock();
	controls_fork_prepare();
	snapshot_fork_prepare();
	heap_fork_prepare();
	alone = false;
}

// What a second fork would wait for, one in a handler, goes before what tells that it is amid this one.
static void done(bool child)
{
	os_process_has_forked();
	os_streams_fork_unlock(child);
	heap_fork_done(child);
	snapshot_fork_done();
	controls_fork_done();
}

static bool done_alone(bool child)
{
	if (!alone)
		return false;
	heap_fork_done_alone(child);
	alone = false;
	return true;
}

static void fork_parent(void)
{
	if (!fork_ends_amid() && !done_alone(false))
		done(false);
}

static void fork_child(void)
{
	if (fork_ends_amid())
		return;
	if (!done_alone(true))
		done(true);
	arenas_finish_resets();
	background_fork_child();
	request_fork_child();
	black_box_fork_child();
	sampling_let_read();
}

static COLD __attribute__((noinline)) const char *keep(const char *value)
{
	size_t bytes = strlen(value) + 1;
	char *kept = bytes <= BASE_LARGEST ? base_alloc(bytes) : NULL;

	return kept == NULL ? NULL : memcpy(kept, value, bytes);
}

const char *life_variable(const char *name)
{
	const char *value = environment(name);

	return value == NULL ? NULL : keep(value);
}

static const char *report_path; // written where it is asked for alone

// VMAG_REPORT names a file to which each process adds one line at load and one at exit (docs/report.md); not one that has a filter of system calls, which may open none.
static COLD __attribute__((noinline)) void report(const char *event, bool with_stats)
{
	char line[640];
	struct text text = text_into(line, sizeof line);

	if (os_has_filter())
		return;
	text_add(&text, "{\"event\":\"%s\",\"pid\":%d,\"version\":\"" VMAG_VERSION "\"", event, os_process_number());
	if (with_stats) {
		struct stats stats = stats_snapshot();

		text_add(&text, ",\"resident_bytes\":%zu,\"peak_resident_bytes\":%zu,", os_resident_bytes(),
			 os_peak_resident_bytes());
		stats_json(&text, &stats);
	}
	text_add(&text, "}\n");
	os_file_append(report_path, line, (size_t)(text.at - line));
}

static void report_at_interval(void)
{
	report_print(NULL, NULL, options.stats_interval_opts);
}

void life_begin(void)
{
	int saved = errno;
	const char *path;

	os_process_at_fork(fork_prepare, fork_parent, fork_child);
	background_allow();
	interval_report = report_at_interval;
	black_box_counters = stats_for_box;
	dump_allocated = stats_for_dump;
	path = life_variable("VMAG_REPORT");
	if (path != NULL) {
		report_path = path;
		report("loaded", false);
	}
	errno = saved;
}

// What a report shows beside the trace.
static COLD __attribute__((noinline)) void tell_ledger(void)
{
	char fields[TRACE_LEDGER_BYTES];
	struct text text = text_into(fields, sizeof fields);
	struct vmag_ledger ledger;

	if (os_has_filter() || !ledger_take(&ledger))
		return;
	ledger_json(&text, &ledger);
	trace_file_ledger(fields, (size_t)(text.at - fields));
}

static COLD __attribute__((noinline)) void end_for_leaks(void)
{
	if (options.prof_leak_error)
		_exit(EXIT_FAILURE);
}

// What the main thread freed and nobody looked at yet goes through the slabs, which notice a double free. Not where exit was called in a signal handler that came
// amid an operation of ours: with locks to take the thread would wait for itself, and its magazines are in the middle of a change.
void life_end(void)
{
	bool leaks;

	if (mutexes_held != 0)
		return;
	if (UNLIKELY(trace_is_on()))
		tell_ledger();
	leaks = profile_final();
	if (heap_debug == DEBUG_ON)
		guard_verify("exit", LOOK_AT_EXIT);
	if (words.front != NULL && words.front->inside == 0)
		front_drain(words.front);
	cpu_fronts_drain();
	caches_verify();
	if (options.stats_print)
		report_print(NULL, NULL, options.stats_print_opts);
	if (report_path != NULL)
		report("exit", true);
	tracing_stop(true);
	black_box_end();
	if (leaks)
		end_for_leaks();
}
