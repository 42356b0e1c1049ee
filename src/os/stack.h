// The call stack: return addresses by frame pointers, read so that no program can make it fault; and what they are called.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

// The return addresses of this thread's stack, innermost first; those inside this library are left out when it is a shared
// one. Code built without frame pointers ends the walk; the address in the program that called the library is always there.
// Returns how many. Neither allocates nor locks, but for the first call, which asks the loader where the library lies.
unsigned os_stack_trace(uintptr_t *frames, unsigned most);

struct text;

// Adds "function+0x12 (file)". Asks the loader, so for reports only.
void os_stack_name(struct text *text, uintptr_t address);

// The address of the instruction that a signal's context is of; 0: unknown.
uintptr_t os_context_address(const void *context);

// This thread's number in the kernel.
int os_thread_number(void);

// Where this thread's stack is in use: from here up. Registers that callees keep are saved there first.
#define os_stack_here() (__builtin_unwind_init(), (uintptr_t)__builtin_frame_address(0))
