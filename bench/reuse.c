// How soon an object that was freed is given out again, how near the next one lies, and what that costs a program: an allocator to preload that does nothing else.
//
//   cc -O2 -fPIC -shared -fno-builtin -DAFTER=64 -o after64.so bench/reuse.c      -DAFTER=0: at once, first freed first; -DLAST_FREED: last freed first;
//                                                                             -DAPART=4: each object takes four times as much as it has
//   LD_PRELOAD=./after64.so build/bench/experiments/programs/factor 210000000008919800000010725657 130
//
// A size class has an array of objects that are free, a ring of which AFTER stay behind. With each AFTER the instructions are the same. For programs
// of one thread with small objects: what is larger than 256 bytes is never used again. Results: docs/decisions/0059.
// SPDX-License-Identifier: BSD-2-Clause
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { QUANTUM = 16, CLASSES = 17, CLASS_BYTES = 1 << 24, RING = 4096, LARGE_BYTES = 256 << 20 };
#ifndef AFTER
#define AFTER 0
#endif
#ifndef APART
#define APART 1
#endif

static char objects[CLASSES][CLASS_BYTES] __attribute__((aligned(CLASS_BYTES))), large[LARGE_BYTES] __attribute__((aligned(QUANTUM)));
static void *ring[CLASSES][RING];
static uint32_t taken[CLASSES], put[CLASSES];
static size_t used[CLASSES], large_used;

static void *fresh(size_t class) {
    void *const object = objects[class] + used[class];
    used[class] += class * QUANTUM * APART;
    return used[class] > CLASS_BYTES ? NULL : object;
}

// Its size stands before it.
static __attribute__((noinline)) void *large_object(size_t size) {
    const size_t at = large_used + QUANTUM, bytes = (size + QUANTUM - 1) / QUANTUM * QUANTUM;
    if (size > LARGE_BYTES || at + bytes > LARGE_BYTES) return NULL;
    large_used = at + bytes;
    *(size_t *)(void *)(large + at - QUANTUM) = size;
    return large + at;
}

void *malloc(size_t size) {
    const size_t class = size == 0 ? 1 : (size + QUANTUM - 1) / QUANTUM;
    if (class >= CLASSES) return large_object(size);
#ifdef LAST_FREED
    return put[class] == 0 ? fresh(class) : ring[class][--put[class] % RING];
#else
    return put[class] - taken[class] <= AFTER ? fresh(class) : ring[class][taken[class]++ % RING];
#endif
}

static size_t class_of(const void *object) {
    const size_t class = ((size_t)object - (size_t)objects) / CLASS_BYTES;
    return class < CLASSES ? class : 0;
}

void free(void *object) {
    const size_t class = class_of(object);
    if (class != 0 && put[class] - taken[class] < RING) ring[class][put[class]++ % RING] = object; // or it is lost
}

void *calloc(size_t count, size_t size) {
    void *const object = size != 0 && count > LARGE_BYTES / size ? NULL : malloc(count * size);
    return object == NULL ? NULL : memset(object, 0, count * size);
}

void *realloc(void *object, size_t size) {
    void *const moved = malloc(size);
    if (object == NULL || moved == NULL) return moved;
    const size_t class = class_of(object), before = class != 0 ? class * QUANTUM : *(size_t *)(void *)((char *)object - QUANTUM);
    memcpy(moved, object, before < size ? before : size);
    free(object);
    return moved;
}
