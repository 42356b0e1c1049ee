/* Exits with the status its first argument says; built in the ways that a preloaded library cannot come into.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
	puts("plain ran");
	return count > 1 ? atoi(words[1]) : 0;
}
