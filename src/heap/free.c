// The slow side of free, and how many bytes an object has.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/heap.h"

#include <errno.h>

#include "guard/report.h"
#include "heap/cpu_front.h"
#include "heap/debug.h"
#include "heap/door.h"
#include "heap/large.h"
#include "heap/reclaim.h"
#include "heap/samples.h"
#include "os/clock.h"
#include "pages/page_map.h"

// Whose address this may be, for a report.
static _Noreturn void report_not_ours(const void *object, const char *call)
{
	struct run *run = page_map_run(object);

	if (run != NULL)
		guard_report(call, object, "not the start of an object", 0);
	if ((uintptr_t)object - page_map_first_chunk() < page_map_chunk_bytes())
		guard_report(call, object, "not the start of a live object: freed already, or inside one", 0);
	guard_report(call, object, "not an object of this heap: another allocator's, or no allocation at all", 0);
}

static __attribute__((noinline)) void free_large(void *object, const char *call)
{
	struct arena *arena = arena_of_word(page_map_word(object));
	struct run *run;

	if (arena != NULL && large_keep(arena, object, call)) {
		if (words.front != NULL && words.front->arena == arena)
			front_note_miss(words.front);
		else
			reclaim_look(arena, os_clock_ms());
		return;
	}
	run = large_end(object, call);
	// Before, for starting a thread allocates: not in what was just freed, lest a second free go unnoticed. But nothing that takes long: a child
	// of fork would lose what is in nobody's hands yet.
	reclaim_expect(arena, run->bytes);
	large_release(run);
	reclaim_look(arena, os_clock_ms());
}

static void free_by_cpu(uintptr_t word, void *object, const char *call)
{
	if (!cpu_front_free(word, object))
		arena_drain(arena_of_word(word), word_class(word), &object, 1, call);
}

// A thread that frees past its magazines, as programs that defragment do, misses nothing in them; what they hold of classes that it does not use
// otherwise would keep slabs that are empty but for that. In a hook of the program nothing is looked at.
static __attribute__((noinline)) void free_past_fronts(uintptr_t word, void *object, const char *call)
{
	arena_drain(arena_of_word(word), word_class(word), &object, 1, call);
	if (words.front != NULL && (words.door & (DOOR_NOCACHE | DOOR_HOOKS)) == 0 && ++words.front->past % MISSES_A_LOOK == 0)
		front_look(words.front);
}

void heap_free_through(struct front *front, void *object, const char *call)
{
	uintptr_t word = page_map_word(object);
	unsigned class = word_class(word);
	int saved = errno;

	if (object == NULL)
		return;
	if (UNLIKELY(word == 0))
		report_not_ours(object, call);
	if (UNLIKELY((words.door & ~DOOR_CPU) != 0))
		door_freeing(words.front, object, heap_plain_usable_size(object, call));
	if (class == 0 && samples_has(page_map_known_run(object), (unsigned)word)) {
		samples_free(page_map_known_run(object), object, call);
		errno = saved;
		return;
	}
	if (class == 0) {
		word = large_unmark(page_map_known_run(object), object, call);
		class = word_class(word);
	}
	if (class == 0)
		free_large(object, call);
	else if (UNLIKELY(class >= SLAB_CLASSES && (uintptr_t)object % GRANULE_BYTES != 0))
		report_not_ours(object, call);
	else if (UNLIKELY(front == NULL))
		free_past_fronts(word, object, call);
	else if (UNLIKELY(door_leads_to_cpu()) && front == words.front)
		free_by_cpu(word, object, call);
	else if (word == front_word(front, class))
		front_push(front, class, object);
	else
		front_send(front, word, object);
	errno = saved;
}

void heap_plain_free(void *object, const char *call)
{
	COUNT_SERVES(COUNT_FREE);
	struct front *front;
	int saved;

	if (object == NULL)
		return;
	saved = errno;
	front = door_front();
	errno = saved;
	heap_free_through(front, object, call);
}

void heap_free(void *object, const char *call)
{
	if (debugging())
		debug_free(GUARD_MALLOC, object, (size_t)GUARD_ANY_SIZE, call);
	else
		heap_plain_free(object, call);
}

// Of what is not in a slab, or no object.
static __attribute__((noinline)) size_t usable_size_elsewhere(const void *object, uintptr_t word, const char *call)
{
	unsigned class = word_class(word);
	struct run *run;
	size_t size;

	if (object == NULL)
		return 0;
	run = page_map_run(object);
	if (samples_has(run, (unsigned)word))
		size = samples_size(run, object);
	else
		size = word == 0 || (class != 0 && class < SLAB_CLASSES) ? 0 : large_size(object);
	if (UNLIKELY(size == 0))
		report_not_ours(object, call);
	return size;
}

// Programs ask often: redis some ten times a request.
size_t heap_plain_usable_size(const void *object, const char *call)
{
	uintptr_t word = page_map_word(object);
	unsigned class = word_class(word);

	if (LIKELY(class - 1 < SLAB_CLASSES - 1)) {
		const struct slab *slab = (const struct slab *)(const void *)page_map_known_run(object);

		if (LIKELY(slab_index(slab, &slab->run.bin->shape, object) >= 0))
			return size_class_bytes[class];
	}
	return usable_size_elsewhere(object, word, call);
}

size_t heap_usable_size(const void *object, const char *call)
{
	if (debugging())
		return object == NULL ? 0 : guard_size(object, call);
	return heap_plain_usable_size(object, call);
}

void heap_free_sized(void *object, size_t align, size_t size, const char *call)
{
	size_t real;

	if (debugging()) {
		debug_free(GUARD_MALLOC, object, size, call);
		return;
	}
	if (object == NULL)
		return;
	bool aligned = align == 0 || (((uintptr_t)object | align) & (align - 1)) == 0; // to a power of two

	real = heap_usable_size(object, call);
	if (UNLIKELY(!aligned || real != heap_size_for(align, size)))
		guard_report(call, object, "freed with a wrong size or alignment, it is an object of %zu bytes", real);
	heap_free(object, call);
}

void heap_delete_sized(void *object, size_t size)
{
	const char *call = "operator delete";
	size_t real = debugging() || object == NULL ? 0 : heap_usable_size(object, call);

	if (real > heap_size_for(0, size) && real <= SLAB_MOST)
		heap_free(object, call);
	else
		heap_free_sized(object, 0, size, call);
}
