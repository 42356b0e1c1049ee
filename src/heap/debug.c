// Debugging of malloc's objects: a guarded cache for each size class, as libumem names its own.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/debug.h"

#include <errno.h>
#include <string.h>

#include "conf/umem_options.h"
#include "guard/log.h"
#include "heap/door.h"
#include "heap/extended.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/samples.h"
#include "os/probe.h"
#include "util/format.h"
#include "watch/tally.h"

enum { LEAST_ALIGN = 16 };

uint8_t heap_debug HIDDEN;

static struct guard_cache caches[CLASSES + 1]; // by class; the last for everything larger

// Memory of the heap as a source of guarded buffers.
static void *source_alloc(void *source, size_t size, size_t align)
{
	(void)source;
	return heap_plain_lasting(align <= LEAST_ALIGN ? 0 : align, size);
}

static void source_free(void *source, void *block, size_t size)
{
	(void)source, (void)size;
	heap_plain_free(block, "free");
}

// What is held back is the program's no more. When its memory goes back the block is as one that was never sampled.
static void source_end_sample(void *block)
{
	struct run *run = page_map_known_run(block);
	unsigned word = page_map_word(block);
	uint32_t tally;

	if (word == 0 || word_class(word) != 0 || run == NULL)
		return;
	if (samples_has(run, word)) {
		samples_end_one(run, block);
	} else if (run->sample != 0 && run->size_class != 0) {
		large_unmark(run, block, "free");
	} else if ((tally = large_take_sample(block, "free")) != 0) {
		os_probe_free(block);
		tally_freed(tally);
	}
}

static void cache_begin(struct guard_cache *cache, const char *name, size_t object_bytes)
{
	cache->alloc = source_alloc;
	cache->free = source_free;
	cache->end_sample = source_end_sample;
	guard_cache_init(cache, name, object_bytes);
}

static __attribute__((noinline)) void caches_begin(void)
{
	cache_begin(&caches[CLASSES], "umem_oversize", 0);
	for (unsigned class = CLASSES - 1; class > 0; class--) {
		char name[32];

		text_print(name, sizeof name, "umem_alloc_%zu", class_size(class));
		cache_begin(&caches[class], name, class_size(class));
	}
}

COLD void debug_begin(void)
{
	if (umem_debugging()) {
		guard_init();
		caches_begin();
		doors_close(DOOR_GUARD);
	} else if (umem_options.log_slab != 0 || umem_options.log_fail != 0)
		guard_logs_init();
	heap_debug = umem_debugging() ? DEBUG_ON : DEBUG_OFF;
}

bool debug_is_on(void)
{
	return heap_ready() && heap_debug == DEBUG_ON;
}

static struct guard_cache *cache_for(size_t size)
{
	unsigned class = size_class(size);

	return &caches[class < CLASSES ? class : CLASSES];
}

static void *alloc(enum guard_face face, size_t size, size_t align, bool may_fail)
{
	void *object = NULL;

	if (size <= PTRDIFF_MAX)
		object = guard_alloc(cache_for(size), face, size, max_size(align, LEAST_ALIGN), may_fail);
	return object != NULL ? object : heap_no_memory();
}

void *debug_alloc(enum guard_face face, size_t size, size_t align)
{
	return alloc(face, size, align, true);
}

void *debug_alloc_nofail(enum guard_face face, size_t size, size_t align)
{
	return alloc(face, size, align, false);
}

void debug_free(enum guard_face face, void *object, size_t size, const char *call)
{
	int saved = errno;

	if (object != NULL)
		guard_free(NULL, face, object, size, call);
	errno = saved;
}

// Always moves, so that who keeps the old address is found out.
void *debug_realloc(void *object, size_t size, const char *call)
{
	void *fresh;

	if (object == NULL)
		return debug_alloc(GUARD_MALLOC, size, 0);
	if (size == 0) {
		debug_free(GUARD_MALLOC, object, (size_t)GUARD_ANY_SIZE, call);
		return NULL;
	}
	if (!guard_check(NULL, GUARD_MALLOC, object, (size_t)GUARD_ANY_SIZE, call))
		return NULL;
	fresh = debug_alloc(GUARD_MALLOC, size, 0);
	if (fresh == NULL)
		return NULL;
	memcpy(fresh, object, min_size(guard_size(object, call), size));
	debug_free(GUARD_MALLOC, object, (size_t)GUARD_ANY_SIZE, call);
	return fresh;
}
