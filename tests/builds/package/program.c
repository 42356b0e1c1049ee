// Asks for nothing of the allocator's itself; its own functions have names of ours inside, and of libumem's.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

void life_begin(void) { abort(); }
void report_add(void) { abort(); }
void words(void) { abort(); }
void *vmem_alloc(void) { abort(); }

int main(int argc, char **argv)
{
	(void)argc;
	return strdup(argv[0]) == NULL;
}
