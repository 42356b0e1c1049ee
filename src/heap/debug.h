// Debugging of malloc's objects as UMEM_DEBUG asks for it: every object is a guarded buffer (guard/guarded.h).
//
// The doors of all threads are closed from first use on, so that every operation comes by; off, nothing is on the fast path.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard/guarded.h"
#include "util/bits.h"

enum heap_debug { DEBUG_UNKNOWN, DEBUG_OFF, DEBUG_ON };

extern uint8_t heap_debug HIDDEN; // unknown until first use

// At first use, when the options are known.
void debug_begin(void);

// Sets the heap up if it has to be. Whether every object is guarded.
bool debug_is_on(void);

static inline bool debugging(void)
{
	return UNLIKELY(heap_debug != DEBUG_OFF) && debug_is_on();
}

// As the functions of heap.h; `face` GUARD_MALLOC for them.
void *debug_alloc(enum guard_face face, size_t size, size_t align);
void *debug_alloc_nofail(enum guard_face face, size_t size, size_t align); // whatever mtbf says
void debug_free(enum guard_face face, void *object, size_t size, const char *call);
void *debug_realloc(void *object, size_t size, const char *call);
