// A program for `vmag doctor` to look at: opens the library named first, says so, and waits until its input ends.
// SPDX-License-Identifier: BSD-2-Clause
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PATIENT_STATIC
static void *take_from(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *(*take)(void) = library != NULL ? (void *(*)(void))dlsym(library, "patient_take") : NULL;

	return take != NULL ? take() : NULL;
}
#else
static void *take_from(const char *path)
{
	(void)path;
	return NULL;
}
#endif

int main(int argc, char **argv)
{
	char *own = strdup("patient");

	if (own == NULL || (argc > 1 && take_from(argv[1]) == NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	free(own);
	return 0;
}
