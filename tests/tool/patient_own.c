// A library with a malloc of its own, bound to itself (-Bsymbolic): what it takes comes from nobody else's heap.
// SPDX-License-Identifier: BSD-2-Clause
#include <stddef.h>

static char heap[1 << 16];
static size_t used;

void *malloc(size_t size)
{
	void *object = heap + used;

	used += (size + 15) & ~(size_t)15;
	return used <= sizeof heap ? object : NULL;
}

// The name that tells mimalloc.
void *mi_malloc(size_t size)
{
	return malloc(size);
}

void free(void *object)
{
	(void)object;
}

void *patient_take(void)
{
	void *taken = malloc(100);

	free(taken);
	return taken;
}
