// A program whose objects are held in all sorts of places: `vmag leaks --unreachable` must find none of site_kept and site_replaced, and all of site_lost.
// It says "ok" once they are there, and waits for the end of its input; with an argument it replaces others all the time meanwhile.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 100, SIZE = 200, PAGE = 4096, GUARDED = 32 * PAGE, ARENA_BYTES = 16 << 20 };

// The library is preloaded, the program is not linked with it.
static void *(*cache_create)(const char *, size_t, size_t, int (*)(void *, void *, int), void *, void *, void *, void *, int);
static void *(*cache_alloc)(void *, int);
static void (*cache_free)(void *, void *);
static void *(*heap_arena)(void *, void *);
static void *(*arena_alloc)(void *, size_t, int);

void **places[8], **kept[COUNT];

__attribute__((noinline)) void *site_kept(void)
{
	return memset(malloc(SIZE), 1, SIZE);
}

__attribute__((noinline)) void site_lost(void)
{
	*(void *volatile *)malloc(SIZE) = NULL;
}

__attribute__((noinline)) void *site_replaced(size_t size)
{
	return memset(malloc(size), 1, size);
}

static void fill(void **place)
{
	for (size_t i = 0; i < COUNT; i++)
		place[i] = site_kept();
}

static int construct(void *object, void *argument, int flags)
{
	(void)argument;
	(void)flags;
	*(void **)object = site_kept();
	return 0;
}

// Objects that the program has, of slabs of several colours; and free ones, which stay constructed.
__attribute__((noinline)) static void keep_in_caches(void)
{
	void *plain = cache_create("plain", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *constructed = cache_create("constructed", SIZE, 0, construct, NULL, NULL, NULL, NULL, 0), *objects[COUNT];

	for (size_t i = 0; i < COUNT; i++) {
		kept[i] = cache_alloc(plain, 0);
		*kept[i] = site_kept();
		objects[i] = cache_alloc(constructed, 0);
	}
	for (size_t i = 0; i < COUNT; i++)
		cache_free(constructed, objects[i]);
	memset(objects, 0, sizeof objects);
}

static void *mapped(int flags)
{
	return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
}

__attribute__((noinline)) static void keep_in_places(void)
{
	places[0] = arena_alloc(heap_arena(NULL, NULL), ARENA_BYTES, 0);
	memset(places[0], 1, ARENA_BYTES);
	places[1] = mapped(MAP_SHARED);
	places[2] = mapped(MAP_PRIVATE); // and protected
	places[3] = aligned_alloc(PAGE, GUARDED); // with a guard before it
	places[4] = aligned_alloc(PAGE, GUARDED); // and protected
	for (size_t i = 0; i < 5; i++)
		fill(places[i] + (i == 3 ? PAGE : 0));
	mprotect(places[2], PAGE, PROT_READ);
	mprotect(places[3], PAGE, PROT_NONE);
	mprotect(places[4], GUARDED, PROT_READ);
}

__attribute__((noinline)) static void overwrite_stack(void)
{
	char volatile old[1 << 16];

	for (size_t i = 0; i < sizeof old; i++)
		old[i] = 0;
}

static void replace_until_input(void)
{
	static void *volatile held[20 * COUNT];
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned random = 1;

	while (poll(&input, 1, 0) == 0)
		for (size_t i = 0; i < COUNT; i++) {
			random = random * 1103515245 + 12345;
			void *volatile *place = &held[(random >> 8) % (20 * COUNT)];
			free(*place);
			*place = site_replaced(SIZE / 4 + (random >> 16) % (5 * SIZE));
		}
}

static void find(void *function, const char *name)
{
	*(void **)function = dlsym(RTLD_DEFAULT, name);
}

int main(int count, char **words)
{
	(void)words;
	find(&cache_create, "vmag_cache_create");
	find(&cache_alloc, "vmag_cache_alloc");
	find(&cache_free, "vmag_cache_free");
	find(&heap_arena, "vmag_vmem_heap_arena");
	find(&arena_alloc, "vmag_vmem_alloc");
	keep_in_caches();
	keep_in_places();
	for (size_t i = 0; i < COUNT; i++)
		site_lost();
	overwrite_stack();
	puts("ok");
	fflush(stdout);
	if (count > 1)
		replace_until_input();
	return getchar() == EOF ? 0 : 1;
}
