// Profile: which allocations are sampled, and with which stack.
//
// Bytes are a line on which points are thrown at random, R = 2^lg_sample bytes apart on average (a Poisson process). An
// allocation of S bytes is sampled when a point falls into it: with probability p = 1 − e^(−S/R), whatever came before.
// So n sampled allocations of S bytes stand for n/p allocations and n·S/p bytes, with variances n·(1−p)/p² and S² times
// that. Kept are integers, n by (stack, size, thread, arena, rate): a tally (watch/tally.h). Weights are applied when they are written
// (docs/decisions/0010-sampling.md).
//
// A thread counts its bytes while sampling is on (heap/sampled.h).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/stack.h"
#include "util/bits.h"
#include "watch/stacks.h"
#include "watch/tally.h"

enum { PROFILE_PREFIX_BYTES = 256, PROFILE_LG_MOST = 57 /* and 36.8 times as far a point may be, which is below 2^63 */ };

// Read by anyone, changed by the functions below or before a second thread exists.
struct profile_settings {
	_Atomic bool active;
	_Atomic uint8_t lg_sample;   // who changes it tells all threads (profile_redraw)
	_Atomic bool gdump;          // a dump at each new peak of mapped memory, seen at samples
	int lg_interval;             // a dump each 2^lg_interval allocated bytes; −1: none
	bool thread_active;          // whether new threads are sampled
	bool accumulate;             // dumps tell what was allocated since the beginning, too
	bool system_thread_names;    // threads without a name get the system's
	bool dump_at_exit, leak_report;
	enum os_unwinder unwinder;
	const uint32_t *line_bytes;  // of PROFILE_LINES, by line: the bytes of its allocations; the first is not looked at
	char prefix[PROFILE_PREFIX_BYTES]; // of the names of dumps
};
extern struct profile_settings profile_settings;

// Of one thread, which alone touches it, but for `drawn`; all zero at first.
struct profile_thread {
	uint64_t random;
	double ahead;     // how far it is to the next point, drawn ahead, in means
	uint32_t thread;  // its number, from 1; 0: not known yet
	uint8_t lg_sample; // with which the next points were drawn, and
	uint8_t drawn_with; // the point that was hit last
	struct profile_known *known; // stacks and tallies of its latest samples; NULL before the first
	_Atomic bool drawn; // the next points were, and by the rate that holds
	bool silent;      // thread.prof.active is false
	bool busy;        // in the profiler: what it allocates itself is not sampled
};

// Whether a point falls into an allocation of `bytes` on that line. Points are exponentially far from each other, 2^lg_sample bytes in the
// mean. On line 0 are the bytes of allocations of any size; each line beyond has allocations of one size, which are counted by one: then nobody
// needs to know how many bytes they have to count them. `until`: of a thread, the steps to each line's next point, all 0 at first. Below 0 the
// allocation is counted already.
enum { PROFILE_LINES = 22 };
bool profile_draw(struct profile_thread *self, int64_t until[PROFILE_LINES], unsigned line, size_t bytes);

// The steps that are left, of 0 or more: below 0 for whatever passes the point, 2^63 bytes too, to which PTRDIFF_MAX is rounded up.
static inline int64_t profile_steps_left(int64_t until, unsigned line, size_t bytes)
{
	return (int64_t)((uint64_t)until - (line == 0 ? bytes : 1));
}

static inline bool profile_is_hit(struct profile_thread *self, int64_t until[PROFILE_LINES], unsigned line, size_t bytes)
{
	if (until[line] >= 0)
		until[line] = profile_steps_left(until[line], line, bytes);
	return __builtin_expect(until[line] < 0, 0) && profile_draw(self, until, line, bytes);
}

// Tells an allocation with its stack. `arena`: its number, or VMAG_ARENA_CACHES and more. The tally's number; 0: not recorded.
// Takes locks, may call the operating system.
uint32_t profile_record(struct profile_thread *self, size_t bytes, unsigned arena);

// Dumps that are due now: by interval, or because `mapped` bytes are a new peak. No lock is held.
void profile_look(struct profile_thread *self, size_t mapped);

// Whether this thread is sampled (thread.prof.active).
void profile_thread_active(struct profile_thread *self, int64_t until[PROFILE_LINES], bool active);

// By another thread: the points are to be drawn anew at the next allocation, by the rate that holds then. Those that are counted to, or drawn, at this very
// moment may stay until one of the thread's points is hit; what falls into them is weighted by the rate that they were drawn with.
void profile_redraw(struct profile_thread *self, int64_t until[PROFILE_LINES]);

// Forgets all samples; objects that live are not known any more. With a new rate, for points that are drawn from now on.
void profile_reset(unsigned lg_sample);

// The thread ends.
void profile_thread_end(struct profile_thread *self);

// The thread's name for dumps, copied and cut to THREAD_NAME_BYTES − 1; "" when it has none.
void profile_name(struct profile_thread *self, const char *name);
const char *profile_name_of(const struct profile_thread *self);

// Writes heap_v2 text (watch/dump.h) into a file of that name (os_file_create); NULL: a new one, <prefix>.<pid>.<n>.m<n>.heap. 0 or an errno.
int profile_dump(const char *path);

// Called in place of our unwinder, with room for `most` return addresses, innermost first; and after a dump, with its path.
typedef void profile_backtrace(void **frames, unsigned *count, unsigned most);
typedef void profile_dumped(const char *path);
extern profile_backtrace *_Atomic profile_backtrace_hook; // at first one of our own
extern profile_dumped *_Atomic profile_dumped_hook;       // NULL: none

// At exit: the final dump <prefix>.<pid>.<n>.f.heap and the line about leaks, where they were asked for. Whether that line was told.
bool profile_final(void);

uint64_t profile_lost(void); // samples for which there was no memory

// Tells a black box that was just made what is known. What other threads free meanwhile may be counted once too often.
void profile_tell_box(void);

// Tells readers in other processes where all this is.
struct vmag_root;
void profile_tell(struct vmag_root *root);

void profile_fork_prepare(void);
void profile_fork_done(bool child);
