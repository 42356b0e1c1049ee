// The fast path where fronts of processors serve: what stands between the miss of heap/fast.h and the slow path.
//
// A thread's words are then closed, so each operation misses, comes here, and is one restartable sequence. Threads of which
// anything else is wanted (heap/door.h) have no `words.cpu` and go on to the slow path.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "heap/cpu_front.h"
#include "heap/front.h"
#include "os/rseq.h"
#include "pages/page_map.h"

#define CPU_FAST static inline __attribute__((always_inline))

CPU_FAST void *cpu_fast_malloc(size_t size, void *(*slow)(size_t))
{
	void *object, ****table = words.cpu;

	if (LIKELY(table != NULL && size <= SMALL_MOST) && LIKELY(rseq_pop(table, size_class_table[size], &object)))
		return object;
	return slow(size);
}

CPU_FAST bool cpu_fast_push(void ****table, void *object)
{
	uintptr_t class = page_map_word(object) - cpu_word;

	return LIKELY(class < CLASSES) && rseq_push(table, class, object);
}

CPU_FAST void cpu_fast_free(void *object, void (*slow)(void *))
{
	void ****table = words.cpu;

	if (LIKELY(table != NULL) && LIKELY(cpu_fast_push(table, object)))
		return;
	slow(object);
}

// The size must be the object's: the slow path reports one that is not.
CPU_FAST void cpu_fast_free_sized(void *object, size_t size, void (*slow)(void *, size_t))
{
	void ****table = words.cpu;

	if (table != NULL && size <= SMALL_MOST && size_class_table[size] == word_class(page_map_word(object)) &&
	    LIKELY(cpu_fast_push(table, object)))
		return;
	slow(object, size);
}
