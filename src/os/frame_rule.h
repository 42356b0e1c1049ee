// How one gets from a function's frame to its caller's, at an address of the function's code: what unwind tables say of it.
//
// The tables are those of exceptions (.eh_frame and .eh_frame_hdr: DWARF 5, 6.4; System V ABI), which every program has that was not
// asked to leave them out. Of all registers the stack pointer, the frame pointer and the return address are followed, and of DWARF's
// expressions those by which compilers describe a function that aligns its stack. What is not of that kind ends the stack.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum os_frame_kind {
	FRAME_UNKNOWN, // there are no tables: made at run time, or without them
	FRAME_END,     // nobody called this, or nobody knows who
	FRAME_SIGNAL,  // where handlers return to: the kernel put all registers above
	FRAME_CALLED,
};

// The canonical frame address (CFA), the caller's stack pointer, is `cfa` bytes above the stack pointer, or the frame pointer; or the word
// there. Offsets of saved registers are in words.
struct os_frame_rule {
	uint64_t kind : 2;
	uint64_t by_frame : 1;       // the CFA is found by the frame pointer
	uint64_t by_word : 1;        // and is the word there
	uint64_t frame_is_saved : 1; // the caller's frame pointer is in memory: `frame` words above the CFA,
	uint64_t frame_by_frame : 1; // or above the frame pointer
	uint64_t code_is_saved : 1;  // the return address is `code` words above the CFA; else in its register
	int64_t cfa : 24;
	int64_t frame : 16;
	int64_t code : 16;
	uint64_t is_plain : 1; // as most are: the CFA is found by the stack pointer alone, and the return address is right below it
};
_Static_assert(sizeof(struct os_frame_rule) == sizeof(uint64_t), "a rule is one word");

// The rule at an address. `is_on_stack`: the address is in a frame of the calling thread's that is known to be one, so that its code stays
// loaded meanwhile; else it may be anything, and its tables vanish while they are read. Whatever they contain, nothing faults, and it ends after
// 131,072 steps at most. `*told` false: what would tell could not be read at this moment, or is kept from us, and the rule may be another one than its code's.
// Takes no lock, allocates nothing, takes some microseconds; ten times as long if the kernel copies. Keeps errno.
struct os_frame_rule os_frame_rule_find(uintptr_t address, bool is_on_stack, bool *told);
