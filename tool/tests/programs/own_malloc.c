/* A program that defines and exports its own malloc, which no preloaded one can replace.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

void *malloc(size_t size_bytes)
{
	(void)size_bytes;
	return NULL;
}

int main(void)
{
	return 0;
}
