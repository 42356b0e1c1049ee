// The call stack: return addresses, read so that no program can make it fault; and what they are called.
//
// Frame pointers: a chain through the stack. Code that was built without them leaves anything in that register, so every
// page is asked for at the kernel before it is read, and the chain ends at the first thing that cannot be a frame.
// Tables: the system's unwinder (libgcc's), which finds its way by the unwind tables that C++ needs; on glibc from 2.35 on
// it takes no lock. It is used when it is in the process, as it is in every C++ program: we do not bring it along.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum os_unwinder { OS_UNWIND_FRAMES, OS_UNWIND_TABLES };

bool os_stack_has_tables(void);

// Whether stacks are found by tables when that unwinder is wanted.
static inline bool os_stack_by_tables(enum os_unwinder unwinder)
{
	return unwinder == OS_UNWIND_TABLES && os_stack_has_tables();
}

// Of one thread, for who finds many of its stacks: what of its own stack is known to be readable, and stays so while the thread lives.
// All zero at first.
struct os_stack_range {
	uintptr_t low, top;
};

// Up to `depth` return addresses, innermost first, those of this library left out where it is a library of its own; the
// address in the program that called the library is always there. Keeps errno. By frame pointers it takes no lock and
// allocates nothing. `range` NULL: every page is asked for.
size_t os_stack_capture(uintptr_t *frames, size_t depth, enum os_unwinder unwinder, struct os_stack_range *range);

// A walk along the frame pointers of the thread's own stack: every word that it read. `first` 0: none.
enum { OS_WALK_MOST = 40 };
struct os_walk {
	uintptr_t first;
	uint32_t count;
	struct {
		uintptr_t next, code;
	} link[OS_WALK_MOST];
};

// The frame that returns into the program, out of this library: `frame` or one further out. `frame` is one of this library's functions.
uintptr_t os_stack_outside(uintptr_t frame);

// As os_stack_capture by frame pointers, from that frame on. `walk` is what it read; none if it was too long, or left the range.
size_t os_stack_walk(uintptr_t *frames, size_t depth, uintptr_t frame, struct os_stack_range *range, struct os_walk *walk);

// Whether those words are as they were, so that a walk would find the same. `frame` is in the same thread, and the same one.
bool os_walk_holds(const struct os_walk *walk, uintptr_t frame);

// The same by frame pointers.
unsigned os_stack_trace(uintptr_t *frames, unsigned most);

// Whether the calling thread is in a signal handler, as far as `depth` return addresses by frame pointers tell: one is where the kernel
// lets handlers return to.
bool os_stack_in_handler(unsigned depth);

struct text;

// Adds "function+0x12 (file)". Asks the loader and reads the file's symbols, so for reports only.
void os_stack_name(struct text *text, uintptr_t address);

// The address of the instruction that a signal's context is of; 0: unknown.
uintptr_t os_context_address(const void *context);

// This thread's number in the kernel.
int os_thread_number(void);

// Where this thread's stack is in use: from here up. Registers that callees keep are saved there first.
#define os_stack_here() (__builtin_unwind_init(), (uintptr_t)__builtin_frame_address(0))
