// The calling thread's memory by its distance from the thread pointer, as initial-exec variables lie (ELF TLS, x86-64 and AArch64 psABI).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

// Bytes from the thread pointer to a thread-local variable of the initial-exec model: the same in every thread.
static inline intptr_t thread_distance(const volatile void *variable)
{
	char *thread;

#ifdef __x86_64__
	__asm__("movq %%fs:0, %0" : "=r"(thread));
#else
	thread = __builtin_thread_pointer();
#endif
	return (const volatile char *)variable - thread;
}

// THREAD_AT(type, distance): an lvalue, one operand of an instruction on x86-64.
#if defined __x86_64__ && defined __clang__
#define THREAD_AT(type, distance) (*(type __attribute__((address_space(257))) *)(distance))
#elif defined __x86_64__
#define THREAD_AT(type, distance) (*(type __seg_fs *)(distance))
#else
#define THREAD_AT(type, distance) (*(type *)((char *)__builtin_thread_pointer() + (distance)))
#endif
