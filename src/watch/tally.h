// Tallies: how many samples of one stack, size, thread, arena and rate there were, and how many of them live.
//
// A tally has a number, which what is known of a sampled object holds, and keeps it while one of its objects lives. It is entered under a
// lock; counted up by its thread alone, or under the lock; counted down by anyone.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/bits.h"
#include "watch/stacks.h"

struct tally {
	// Constant while it is in use. Each has a cache line of its own, for they are threads' own.
	_Alignas(CACHE_LINE) struct stack *stack;
	uint64_t size; // bytes that the program may use
	uint32_t thread;
	uint16_t arena;
	uint8_t lg_sample;
	bool retired; // forgotten, but objects of it live
	uint64_t weighted; // bytes that one stands for
	uint32_t next;     // of the same hash
	// Atomic; the first is written under the lock, after all else of the tally that it leads to.
	_Atomic uint32_t next_of_stack; // those of a thread one after the other
	_Atomic uint64_t live, total;
};

enum { LG_TALLY_BLOCK = 7, TALLY_BLOCKS = 4096 }; // tallies a block, so that one is BASE_LARGEST bytes; blocks
extern struct tally *_Atomic tally_blocks[TALLY_BLOCKS] HIDDEN;

// Their numbers are 1 … this.
uint32_t tallies_last(void);

static inline struct tally *tally_of(uint32_t number)
{
	struct tally *block = atomic_load_explicit(&tally_blocks[(number - 1) >> LG_TALLY_BLOCK], memory_order_acquire);

	return &block[(number - 1) % (1 << LG_TALLY_BLOCK)];
}

// Counts a sample of that stack, size, thread, arena and rate. The tally's number; 0: no memory, or none left. Takes a lock; may call the
// operating system without it.
uint32_t tally_count(const struct tally *key);

// The object was freed; or it never came into being.
void tally_freed(uint32_t number);
void tally_cancel(uint32_t number);

// Forgets all; those of which objects live keep their numbers. Counted first, so that who counts up without the lock and looks then, in a
// tally that it found before, knows that it may mean something else.
extern _Atomic uint32_t tally_resets HIDDEN;
void tallies_forget(void);

// What a sample of an object of that many bytes stands for, in bytes; and what an object of a tally does, or of `bytes` itself when that is 0.
uint64_t sample_weight(uint64_t bytes, unsigned lg_sample);
static inline uint64_t tally_weighted_bytes(uint32_t number, size_t bytes)
{
	return number == 0 ? bytes : tally_of(number)->weighted;
}

// Whether anything was counted in it. Before that, what else it has may just be written, for it is used again after a reset.
bool tally_is_told(const struct tally *tally);

// What tallies stand for.
struct estimate {
	double live_objects, live_bytes, total_objects, total_bytes;
};
void estimate_add(struct estimate *sum, const struct tally *tally);

// Tells a black box that was just made what is known. What other threads free meanwhile may be counted once too often.
void tallies_tell_box(void);

// Tells readers in other processes where they are.
struct vmag_root;
void tallies_tell(struct vmag_root *root);

// For its figures.
struct mutex;
struct mutex *tallies_mutex(void);

void tallies_fork_prepare(void);
void tallies_fork_done(void);
