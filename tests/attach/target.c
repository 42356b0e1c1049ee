// A program that does what it is told on standard input, a line each, and answers "ok": what observers look into.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../include/vmag/cache.h"

enum { MOST = 1 << 20, SMALL_BYTES = 1000, MEDIUM_BYTES = 14000, LARGE_BYTES = 1 << 20, CHURN_SLOTS = 512 };

static void *small[MOST], *large[MOST];
static size_t smalls, larges;

__attribute__((noinline)) static void site_small(size_t count)
{
	for (size_t i = 0; i < count; i++)
		small[smalls++] = malloc(SMALL_BYTES);
}

__attribute__((noinline)) static void site_medium(size_t count)
{
	for (size_t i = 0; i < count; i++)
		small[smalls++] = malloc(MEDIUM_BYTES);
}

__attribute__((noinline)) static void site_large(size_t count)
{
	for (size_t i = 0; i < count; i++)
		large[larges++] = malloc(LARGE_BYTES);
}

__attribute__((noinline)) static void site_filled(size_t count)
{
	for (size_t i = 0; i < count; i++)
		memset(large[larges++] = malloc(LARGE_BYTES), 1, LARGE_BYTES);
}

struct holder {
	void *object;
	char rest[40];
};

// Objects whose only pointers were in structures that are free now, and chains of objects that nobody holds.
__attribute__((noinline)) static void site_lost(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct holder *holder = malloc(sizeof *holder);
		void **object = malloc(SMALL_BYTES);

		*object = malloc(SMALL_BYTES);
		*(void **)*object = object;
		holder->object = object;
		free(holder);
	}
}

// Each holds the one before.
__attribute__((noinline)) static void site_chain(void **first, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void **object = malloc(SMALL_BYTES);

		*object = *first;
		*first = object;
	}
}

// The library may be preloaded.
static void *cached(void)
{
	__typeof__(vmag_cache_create) *create = (__typeof__(create))dlsym(RTLD_DEFAULT, "vmag_cache_create");
	__typeof__(vmag_cache_alloc) *alloc = (__typeof__(alloc))dlsym(RTLD_DEFAULT, "vmag_cache_alloc");
	static vmag_cache_t *cache;

	if (cache == NULL)
		cache = create("lost and kept", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	return memset(alloc(cache, 0), 0, 200);
}

__attribute__((noinline)) static void site_kept_of_cache(size_t count)
{
	for (size_t i = 0; i < count; i++)
		small[smalls++] = cached();
}

// Each leads to an object of the heap.
__attribute__((noinline)) static void site_lost_of_cache(size_t count)
{
	for (size_t i = 0; i < count; i++)
		*(void **)cached() = malloc(SMALL_BYTES);
}

// Overwrites what calls left on the stack.
__attribute__((noinline)) static void wipe_stack(void)
{
	volatile char bytes[16384];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = 0;
}

static void free_all(void)
{
	while (smalls > 0)
		free(small[--smalls]);
	while (larges > 0)
		free(large[--larges]);
}

static void *churn(void *seed)
{
	void *slots[CHURN_SLOTS] = { NULL };
	unsigned random = (unsigned)(uintptr_t)seed;

	for (;;) {
		unsigned slot = (random = random * 1103515245 + 12345) >> 16 & (CHURN_SLOTS - 1);

		free(slots[slot]);
		slots[slot] = malloc((random >> 8 & 4095) + 1);
	}
	return NULL;
}

static void start_threads(size_t count)
{
	pthread_t thread;

	for (size_t i = 0; i < count; i++)
		pthread_create(&thread, NULL, churn, (void *)(i + 1));
}

static void close_all(void)
{
	for (int file = 3; file < 4096; file++)
		close(file);
}

// A child that allocates of its own, and waits to be killed.
static void fork_child(size_t count, int raw)
{
	pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();

	if (pid == 0) {
		if (raw)
			free_all();
		else
			site_small(count);
		for (;;)
			pause();
	}
	printf("%d\n", (int)pid);
}

// Changes the root that observers read, as if another version of the library had written it.
static void spoil(size_t offset, uint32_t value)
{
	char *root = dlsym(RTLD_DEFAULT, "vmag_root");

	memcpy(root + offset, &value, sizeof value);
}

static void deadlock(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	puts("ok");
	fflush(stdout);
	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
}

static void obey(const char *word, size_t count, uint32_t value)
{
	if (strcmp(word, "small") == 0)
		site_small(count);
	else if (strcmp(word, "medium") == 0)
		site_medium(count);
	else if (strcmp(word, "large") == 0)
		site_large(count);
	else if (strcmp(word, "fill") == 0)
		site_filled(count);
	else if (strcmp(word, "lose") == 0)
		site_lost(count);
	else if (strcmp(word, "keep_cached") == 0)
		site_kept_of_cache(count);
	else if (strcmp(word, "lose_cached") == 0)
		site_lost_of_cache(count);
	else if (strcmp(word, "free") == 0)
		free_all();
	else if (strcmp(word, "threads") == 0)
		start_threads(count);
	else if (strcmp(word, "close") == 0)
		close_all();
	else if (strcmp(word, "fork") == 0 || strcmp(word, "clone") == 0)
		fork_child(count, word[0] == 'c');
	else if (strcmp(word, "spoil") == 0)
		spoil(count, value);
	else if (strcmp(word, "deadlock") == 0)
		deadlock();
}

int main(void)
{
	char line[128], word[32];
	void *chain = NULL; // on the stack alone

	while (fgets(line, sizeof line, stdin) != NULL) {
		size_t count = 0;
		uint32_t value = 0;

		if (sscanf(line, "%31s %zu %u", word, &count, &value) < 1)
			continue;
		if (strcmp(word, "chain") == 0)
			site_chain(&chain, count);
		obey(word, count, value);
		wipe_stack();
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
