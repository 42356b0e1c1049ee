// What mallocx and its family ask for beyond malloc: alignment, zeroes, an arena, a cache or none, all in `flags`.
//
// `flags` are those of include/jemalloc/jemalloc.h. A flag that names no arena or cache is misuse, and reported. errno is
// kept when an object is freed and set to ENOMEM when there is no memory.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

// NULL: no memory.
void *heap_mallocx(size_t size, int flags);

// Like realloc with flags; zeroes, if asked for, what lies beyond the bytes that could be used before. NULL: no memory, the
// object is as before.
void *heap_rallocx(void *object, size_t size, int flags);

// Guarded buffers (heap/debug.h): not of the thread's arena where that is one of the program's, whose reset would take them away. NULL: no memory.
void *heap_plain_lasting(size_t align, size_t size);

// Resizes in place to what size + extra needs, or as near to that as it goes down to size. Returns the bytes that can be used
// now, whether anything changed or not.
size_t heap_xallocx(void *object, size_t size, size_t extra, int flags);

// Bytes that the program may use; and the end of an object.
size_t heap_sallocx(const void *object);
void heap_dallocx(void *object, int flags, const char *call);

// `size`: anything from what was asked for to what can be used; another one is reported.
void heap_sdallocx(void *object, size_t size, int flags, const char *call);

// The bytes that an object of mallocx(size, flags) could be used for; 0: there can be none.
size_t heap_nallocx(size_t size, int flags);
