// A library with a static copy of an allocator: a malloc that only its own symbol table tells of.
// SPDX-License-Identifier: BSD-2-Clause
#include <stddef.h>

static char heap[1 << 16];

__attribute__((visibility("hidden"), noinline)) void *malloc(size_t size)
{
	return size <= sizeof heap ? heap : NULL;
}

void *patient_take(void)
{
	return malloc(100);
}
