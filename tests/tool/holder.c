// A program for the tools to watch: allocates as it is told on standard input, and answers each line with "ok".
//
//   grow N     site_grow keeps N MiB in objects of 4 KiB
//   hold N     site_hold keeps N MiB in objects of 64 bytes
//   thin K     frees all of site_hold's objects but each K-th
//   cache N    N MiB in objects of 512 bytes of the object cache "holder", where the library has caches
//   large N    site_large allocates and frees N MiB in objects of 1 MiB
//   churn N    site_churn allocates and frees N MiB in objects of 1 KiB
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 22 };

static void *held[MOST], *grown[MOST];
static size_t held_count, grown_count;

static void *filled(size_t size)
{
	return memset(malloc(size), 1, size);
}

__attribute__((noinline)) void *site_grow(void)
{
	return filled(4096);
}

__attribute__((noinline)) void *site_hold(void)
{
	return filled(64);
}

__attribute__((noinline)) void *site_churn(void)
{
	return filled(1024);
}

__attribute__((noinline)) void *site_large(void)
{
	return filled(1 << 20);
}

// The library is preloaded, the program is not linked with it.
static void take_cached(size_t bytes)
{
	void *(*create)(const char *, size_t, size_t, void *, void *, void *, void *, void *, int);
	void *(*take)(void *, int);
	void *cache;

	*(void **)&create = dlsym(RTLD_DEFAULT, "vmag_cache_create");
	*(void **)&take = dlsym(RTLD_DEFAULT, "vmag_cache_alloc");
	if (create == NULL || take == NULL)
		return;
	for (cache = create("holder", 512, 0, NULL, NULL, NULL, NULL, NULL, 0); bytes > 0; bytes -= 512)
		take(cache, 0);
}

static void thin(size_t keep)
{
	for (size_t i = 0; i < held_count; i++)
		if (i % keep != 0) {
			free(held[i]);
			held[i] = NULL;
		}
}

static void obey(const char *what, size_t number)
{
	size_t bytes = number << 20;

	if (strcmp(what, "grow") == 0)
		for (; bytes > 0; bytes -= 4096)
			grown[grown_count++] = site_grow();
	else if (strcmp(what, "hold") == 0)
		for (; bytes > 0; bytes -= 64)
			held[held_count++] = site_hold();
	else if (strcmp(what, "thin") == 0)
		thin(number);
	else if (strcmp(what, "cache") == 0)
		take_cached(bytes);
	else if (strcmp(what, "large") == 0)
		for (; number > 0; number--)
			free(site_large());
	else if (strcmp(what, "churn") == 0)
		for (; bytes > 0; bytes -= 1024)
			free(site_churn());
}

int main(void)
{
	char what[16];
	size_t number;

	while (scanf("%15s %zu", what, &number) == 2) {
		obey(what, number);
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
