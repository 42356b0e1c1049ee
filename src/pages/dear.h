// Dear huge pages: whether these take longer just now than the small pages of the same memory, so that chunks are better left to small ones.
//
// Mostly they take a sixth. But where memory is in pieces others' pages are moved to make a huge one; and a virtual machine
// that tells its host which memory is free has to fetch a huge page that nobody had for some seconds, while what is free in pieces is at hand
// (docs/decisions/0062). So a huge page that took long is compared with the first small pages of the next run, or of the same run's next chunk. Is it
// dear, 16 chunks are left to small pages, 32 if the next one is dear again, and so on to 256; of the run that is compared all.
//
// One for the process, all zero at first. Threads that meet here may leave a few chunks more or less.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dear {
	_Atomic uint64_t worth_ns; // what huge pages took that took long, and small ones longer
	_Atomic uint64_t took_ns;  // what one took that is to be compared; 0: none
	_Atomic uint32_t left;     // chunks still to be left to small pages
	_Atomic uint32_t times;    // dear in succession
};

enum {
	DEAR_HUGE_NS = 20 * 1000,  // to zero one takes longer: what takes less was there, or is none
	DEAR_FROM_NS = 500 * 1000, // twice what a huge page takes where memory is at hand
	DEAR_LEAST = 16,           // chunks
	DEAR_MOST_TIMES = 4,
};

// So many chunks would be huge pages. True: they are left to small ones. If the run may be touched and has more chunks than are to be left, that is the next try.
bool dear_leaves(struct dear *dear, size_t chunks, bool may_try);

// A huge page took so long: perhaps it is to be compared, with small ones of the next chunk.
void dear_took(struct dear *dear, uint64_t ns);
bool dear_is_to_compare(const struct dear *dear);

// The first of so many chunks would take so long in small pages. True: all are left to them, and of the next ones what is missing to 16 or more.
bool dear_compare(struct dear *dear, uint64_t small_ns, size_t chunks);
