// Dump: the profile as a file of jemalloc's heap_v2 text, which jeprof and `vmag heap` read.
//
//   heap_v2/1                                      period 1: the numbers below are estimates, no more to be scaled up
//     t*: <live objects>: <live bytes> [<total objects>: <total bytes>]
//     t<number>: … [ … ] <thread name>             for each thread
//   @ 0x<pc> 0x<pc> …                              a stack, innermost first
//     t*: … [ … ]
//     t<number>: … [ … ]
//
//   MAPPED_LIBRARIES:
//   <text of /proc/PID/maps>
//   build <start of code> <build id>               for each file of which code is mapped and that has one, for it may be another one when names are looked for
//
//   VMAG_PROFILE:                                  what the estimates are made of, for standard errors (docs/profile.md)
//   lg_sample=… lost=… pid=… time=… allocated=… threads=…
//   <number of the stack, from 1> <thread> <arena> <size> <lg_sample> <live samples> <total samples>
//
// One dump at a time; a second one waits. No lock is held while the system is called, and nothing is allocated.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Into a new file named <prefix>.<pid>.<n>.<kind><n of the kind>.heap, n being the next that is free; kind 'f': without the second number. None without a prefix.
// One that cannot be written is told on stderr, once, if that is what it was when dump_remember_standard_error was called.
int dump_named(char kind);
void dump_remember_standard_error(void);

// What the objects of malloc take, so that a reader sees what samples do not tell of, and how many threads there are. False: unknown. Set once by a
// floor above; takes locks, one at a time.
extern bool (*dump_allocated)(size_t *bytes, unsigned *threads);

// Between the two no dump runs. False: this thread is in a dump itself; then there is nothing to end.
bool dump_begin(void);
void dump_end(void);

// The dump of a thread that does not exist in the child is over.
void dump_fork_child(void);
