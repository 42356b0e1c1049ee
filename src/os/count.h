// Counting build (cmake -DVMAG_COUNT=ON): what is done to memory that threads share, by the operation that it serves.
//
// In an ordinary build all of this is nothing. In a counting one the compiler includes this file before any other
// (CMakeLists.txt), and here <stdatomic.h>'s read-modify-writes are replaced by counted ones: no source changes for it.
// A sequentially consistent store counts as one, for that is what processors make of it. gcc only.
// A line has moved when another thread than now was the last one known to have it: known from read-modify-writes, and from
// COUNT_LINES where a lock protects more than itself. What the fast path does is never seen here: it has no such thing.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// What an operation is for; an operation within another one counts as that other one.
enum count_kind {
	COUNT_OTHER, // the beginning and the end of threads, the background thread, controls, all that is not one below
	COUNT_MALLOC,
	COUNT_FREE,
	COUNT_FREE_FOREIGN, // of an object of another arena
	COUNT_KINDS
};

#ifdef VMAG_COUNT

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // what sources define comes too late for what is included here
#endif
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { COUNT_RANKS = 32 };

// What one kind of operation did.
struct count_cells {
	uint64_t misses;    // times that it left the fast path
	uint64_t atomics;   // read-modify-writes, those of locks among them
	uint64_t lines;     // cache lines that another thread had before
	uint64_t exchanges; // of magazines with a depot
	uint64_t magazines; // made or destroyed, in slabs that all threads share
	uint64_t contentions; // of depots: somebody else had the lock (2001, §3.4)
	uint64_t locks[COUNT_RANKS]; // by rank (os/mutex.h)
	uint64_t waits[COUNT_RANKS]; // of these, had to wait
};

struct count_cells *count_own(void);
void count_atomic(const volatile void *address);
void count_lines(const void *start, size_t bytes);
enum count_kind count_begin(enum count_kind kind);
void count_end(const enum count_kind *outer);

// The only symbols that a counting build exports beyond the others: sets all to zero; the sums over all threads as JSON.
void vmag_count_reset(void);
void vmag_count_json(char *text, size_t size);

#define COUNT_SERVES(kind) __attribute__((cleanup(count_end), unused)) const enum count_kind count_outer = count_begin(kind)
#define COUNT(cell) (void)count_own()->cell++
#define COUNT_LINES(start, bytes) count_lines(start, bytes)

#undef atomic_store
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#define COUNTED(at, operation) (count_atomic(at), operation)
#define atomic_store(at, value) COUNTED(at, __atomic_store_n(at, value, __ATOMIC_SEQ_CST))
#define atomic_exchange(at, value) COUNTED(at, __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST))
#define atomic_exchange_explicit(at, value, order) COUNTED(at, __atomic_exchange_n(at, value, order))
#define __atomic_exchange_n(at, value, order) COUNTED(at, __atomic_exchange_n(at, value, order))
#define atomic_compare_exchange_strong(at, seen, value) \
	atomic_compare_exchange_strong_explicit(at, seen, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#define atomic_compare_exchange_strong_explicit(at, seen, value, success, failure) \
	COUNTED(at, __atomic_compare_exchange_n(at, seen, value, 0, success, failure))
#define atomic_fetch_add(at, value) COUNTED(at, __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(at, value, order) COUNTED(at, __atomic_fetch_add(at, value, order))
#define atomic_fetch_sub(at, value) COUNTED(at, __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_sub_explicit(at, value, order) COUNTED(at, __atomic_fetch_sub(at, value, order))
#define atomic_fetch_or(at, value) COUNTED(at, __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_or_explicit(at, value, order) COUNTED(at, __atomic_fetch_or(at, value, order))
#define atomic_fetch_and(at, value) COUNTED(at, __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_and_explicit(at, value, order) COUNTED(at, __atomic_fetch_and(at, value, order))

#else

#define COUNT_SERVES(kind) ((void)0)
#define COUNT(cell) ((void)0)
#define COUNT_LINES(start, bytes) ((void)0)

#endif
