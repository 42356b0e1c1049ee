// The call stack: return addresses, read so that no program can make it fault; and what they are called.
//
// Frame pointers: a chain through the stack. Code that was built without them leaves anything in that register, so what
// is not surely the thread's own stack is copied by the kernel, and the chain ends at the first thing that cannot be a frame.
// Tables: those that exceptions need (os/frame_rule.h), read by ourselves: no lock, no allocation, for any program that has them; code
// without tables is gone through by frame pointers. What was read is kept by return address (os/rules.h).
// System: libgcc's unwinder, when it is in the process. It may allocate and, before glibc 2.35, take the loader's lock; it alone knows
// tables that code made at run time has registered.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

enum os_unwinder { OS_UNWIND_FRAMES, OS_UNWIND_TABLES, OS_UNWIND_SYSTEM };

// Walks by tables begin at the CFA of one of our functions, which is known by its frame pointer where frames are laid out as on x86-64.
#ifdef __x86_64__
enum { OS_HAS_RULES = 1 };
#else
enum { OS_HAS_RULES = 0 };
#endif

// Only where the library is linked into a program (unwinder_static.c): whether its constructors have begun.
extern bool os_unwinder_is_told HIDDEN;

// Whether the system's unwinder is in the process and can be asked already.
bool os_stack_has_system(void);

// Whether stacks are found by the system's unwinder: when that one is wanted, or tables are that we do not walk by.
static inline bool os_stack_by_system(enum os_unwinder unwinder)
{
	return unwinder != OS_UNWIND_FRAMES && (unwinder == OS_UNWIND_SYSTEM || !OS_HAS_RULES) && os_stack_has_system();
}

// Of one thread, for who finds many of its stacks: where its stack was found readable. From `own` on it is the thread's own, which stays so while the
// thread lives, if the program takes no part of it away; below, a coroutine's stack may have been taken for it that lay right there, so that only what is known to be a frame can be read.
// All zero at first.
struct os_stack_range {
	uintptr_t low, top, own;
	uintptr_t step; // the most that `own` goes down at once
};

// Up to `depth` return addresses by frame pointers, innermost first, those of this library left out where it is a library of its own; the
// address in the program that called the library is always there. Keeps errno. Takes no lock and allocates nothing. The kernel copies what is read.
unsigned os_stack_trace(uintptr_t *frames, unsigned most);

// The same by the system's unwinder.
size_t os_stack_system(uintptr_t *frames, size_t depth);

// The last walk of one thread up its own stack: every word that it read, innermost first, at the array's end. The next walk ends where it comes to a
// frame of this one, by the same state of the walk, if all words further out are as they were: it would find the same again. All zero at first.
enum { OS_WALK_MOST = 128 };
struct os_walk {
	uint32_t count; // of words; 0: nothing is kept
	uint32_t generation; // of what was known of code; 0: by frame pointers
	uint32_t begun;      // walks: who looks before and after sees that a handler walked in between, over the words of who was interrupted
	uint32_t taken;      // the walk whose stack the caller has in its place; what another one read is not kept: a handler may come before that
	struct os_walk_word {
		uintptr_t at, value;
		uintptr_t frame_at; // WORD_…, or of a return address: where the frame pointer is, by which one goes on from there
		uintptr_t frames;   // of a return address: how many there are from this one outwards
	} word[OS_WALK_MOST + 1]; // and the end's mark
};
enum { WORD_OTHER, WORD_FRAME_ALONE, WORD_FRAME }; // no return address; one where no walk can end; one for which no frame pointer matters

// The frame that returns into the program, out of this library: `frame` or one further out. `frame` is one of this library's functions.
uintptr_t os_stack_outside(uintptr_t frame);

// Return addresses as above, from that frame on; by tables, with what is kept of them in `rules`, or (NULL) by frame pointers. Only those further in
// than where it met the last walk: `*kept` outermost ones are the same as then. `walk` becomes this one; nothing if this was too long, did not come
// to its end, or left the range. The caller then says that it has `taken` it.
struct os_rules;
size_t os_stack_walk(uintptr_t *frames, size_t depth, uintptr_t frame, struct os_rules *rules, struct os_stack_range *range, struct os_walk *walk,
		     size_t *kept);

// Whether a walk from `frame` would be the last one again.
bool os_walk_holds(const struct os_walk *walk, uintptr_t frame);

// Whether the calling thread is in a signal handler, as far as `depth` return addresses by frame pointers tell: one is where the kernel
// lets handlers return to.
bool os_stack_in_handler(unsigned depth);

struct text;

// Adds "function+0x12 (file)". Asks the loader and reads the file's symbols, so for reports only.
void os_stack_name(struct text *text, uintptr_t address);

// The address of the instruction that a signal's context is of; 0: unknown.
uintptr_t os_context_address(const void *context);

// Where this thread's stack is in use: from here up. Registers that callees keep are saved there first.
#define os_stack_here() (__builtin_unwind_init(), (uintptr_t)__builtin_frame_address(0))
