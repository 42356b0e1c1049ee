// The least that an allocator does: one to preload that keeps a list of free objects a size class and thread, and nothing else. What a program takes with it
// is what it takes itself, and what no allocator can be far below; what is above that is an allocator's to gain (bench/redo.py --least, docs/experiments.md).
//
//   cc -O2 -fPIC -shared -fno-builtin -DHUGE_PAGES=1 -o least.so bench/least.c       huge pages from the start, or not
//   LD_PRELOAD=./least.so lua5.4 ...
//
// It gives nothing back, neither to the system nor to other threads or classes; knows no misuse, no memory of others, no fork; counts and tells nothing; has no
// lock and no atomic operation but one for 64 KiB of fresh memory (and where a thread ends). Nobody should run anything else on it.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef HUGE_PAGES
#define HUGE_PAGES 0
#endif
#define EXPORT __attribute__((visibility("default")))
#define RARELY __attribute__((noinline, cold))
#define UNLIKELY(condition) __builtin_expect(condition, 0)

// Classes: 16 bytes apart to 128, then four a doubling. A chunk has objects of one class, or is the first of those that a large object has.
enum { QUANTUM = 16, STEPS = 8, SMALL_MOST = 1024, CLASSES = 128, CHUNK = 1 << 16, HUGE = 1 << 21, PAGE = 4096, APART = 128 };
static const size_t REGION = (size_t)16 << 30;

struct lists {
    void *free[CLASSES];  // the first of them; each begins with the next
    char *fresh[CLASSES]; // what was never used; NULL: none
    struct lists *next;   // of a thread that ended
    bool taken_over;
};

static uint8_t class_of_quanta[SMALL_MOST / QUANTUM + 1], class_of_chunk[((size_t)16 << 30) / CHUNK];
static uint32_t bytes_of_class[CLASSES]; // in quanta
#define NOWHERE ((char *)((uintptr_t)1 << 63)) // far from NULL, and from all that others give
static char *region = NOWHERE;
static atomic_size_t used;
static _Thread_local struct lists own __attribute__((tls_model("initial-exec")));
static struct lists *left; // by threads that ended
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_of_thread;

static size_t class_of_size(size_t size) {
    const size_t quanta = size == 0 ? 1 : (size + QUANTUM - 1) / QUANTUM;
    if (quanta <= STEPS) return quanta;
    const unsigned shift = 63 - (unsigned)__builtin_clzl(quanta - 1) - 2; // of the distance between classes there
    return STEPS + (shift - 1) * 4 + ((quanta - 1) >> shift) - 3;
}

static size_t bytes_of(size_t class) {
    return (size_t)bytes_of_class[class] * QUANTUM;
}

static void thread_ends(void *unused) {
    (void)unused;
    struct lists *const kept = mmap(NULL, sizeof *kept, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept == MAP_FAILED) return;
    memcpy(kept, &own, sizeof own);
    memset(&own, 0, sizeof own);
    pthread_mutex_lock(&lock);
    kept->next = left;
    left = kept;
    pthread_mutex_unlock(&lock);
}

// A thread's first miss: what a thread that ended had is its.
static RARELY void take_over(void) {
    pthread_mutex_lock(&lock);
    if (region == NOWHERE) {
        for (size_t class = 1; class < CLASSES; class++) {
            const unsigned shift = class <= STEPS ? 0 : (unsigned)(class - STEPS - 1) / 4 + 1;
            bytes_of_class[class] = class <= STEPS ? (uint32_t)class : (uint32_t)((4 + (class - STEPS - 1) % 4 + 1) << shift);
        }
        for (size_t quanta = 0; quanta <= SMALL_MOST / QUANTUM; quanta++) class_of_quanta[quanta] = (uint8_t)class_of_size(quanta * QUANTUM);
        char *const mapped = mmap(NULL, REGION + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) abort();
        char *const start = (char *)(((uintptr_t)mapped + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
        madvise(start, REGION, HUGE_PAGES ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        region = start;
        pthread_key_create(&end_of_thread, thread_ends);
    }
    own.taken_over = true;
    struct lists *const kept = left;
    if (kept != NULL) left = kept->next;
    pthread_mutex_unlock(&lock);
    pthread_setspecific(end_of_thread, &own);
    if (kept == NULL) return;
    for (size_t class = 1; class < CLASSES; class++) {
        void **last = &own.free[class];
        while (*last != NULL) last = *last;
        *last = kept->free[class];
        if (own.fresh[class] == NULL) own.fresh[class] = kept->fresh[class];
    }
    munmap(kept, sizeof *kept);
}

// Small objects that follow upon one another are two lines apart, a page at a time, lest they be neighbours (docs/decisions/0059).
static char *fresh_after(char *object, size_t bytes) {
    const size_t step = bytes < APART ? (APART + bytes - 1) / bytes * bytes : bytes, block = step < PAGE ? PAGE / step * step : step;
    const size_t at = (size_t)(object - region) % CHUNK, from = at / block * block, next = at % block + step;
    size_t to = from + next;
    if (next >= block) to = next % step + bytes < step ? from + next % step + bytes : from + block;
    return to + bytes > CHUNK / block * block ? NULL : object - at + to;
}

static RARELY void *fresh(size_t class) {
    const size_t bytes = bytes_of(class), chunks = bytes <= CHUNK / 4 ? 1 : (bytes + CHUNK - 1) / CHUNK;
    const size_t at = atomic_fetch_add_explicit(&used, chunks * CHUNK, memory_order_relaxed);
    if (at + chunks * CHUNK > REGION) {
        errno = ENOMEM;
        return NULL;
    }
    char *const start = region + at;
    class_of_chunk[at / CHUNK] = (uint8_t)class;
    if (bytes <= CHUNK / 4) own.fresh[class] = fresh_after(start, bytes);
    return start;
}

static __attribute__((noinline)) void *take_fresh(size_t size) {
    if (UNLIKELY(!own.taken_over)) take_over();
    if (UNLIKELY(size > REGION / 4)) {
        errno = ENOMEM;
        return NULL;
    }
    const size_t class = class_of_size(size);
    void *const object = own.free[class];
    if (object != NULL) {
        own.free[class] = *(void **)object;
        return object;
    }
    char *const next = own.fresh[class];
    if (next == NULL) return fresh(class);
    own.fresh[class] = fresh_after(next, bytes_of(class));
    return next;
}

EXPORT void *malloc(size_t size) {
    if (UNLIKELY(size > SMALL_MOST)) return take_fresh(size);
    const size_t class = class_of_quanta[(size + QUANTUM - 1) / QUANTUM];
    void *const object = own.free[class];
    if (UNLIKELY(object == NULL)) return take_fresh(size);
    own.free[class] = *(void **)object;
    return object;
}

EXPORT void free(void *object) {
    const size_t chunk = ((size_t)object - (size_t)region) / CHUNK;
    if (UNLIKELY(chunk >= sizeof class_of_chunk)) return; // NULL, or somebody's else
    void **const list = &own.free[class_of_chunk[chunk]];
    *(void **)object = *list;
    *list = object;
}

EXPORT size_t malloc_usable_size(void *object) {
    return object == NULL ? 0 : bytes_of(class_of_chunk[((size_t)object - (size_t)region) / CHUNK]);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    const bool zero = bytes > SMALL_MOST && own.taken_over && bytes <= REGION / 4 && own.free[class_of_size(bytes)] == NULL; // fresh
    void *const object = malloc(bytes);
    return object == NULL || zero ? object : memset(object, 0, bytes);
}

EXPORT void *realloc(void *object, size_t size) {
    const size_t before = malloc_usable_size(object);
    if (size <= before && size >= before / 2 && size != 0) return object;
    if (object != NULL && size == 0) {
        free(object);
        return NULL;
    }
    void *const moved = malloc(size);
    if (object == NULL || moved == NULL) return moved;
    memcpy(moved, object, before < size ? before : size);
    free(object);
    return moved;
}

// A chunk begins at a multiple of its size, so an object of 2^n bytes does, up to that.
EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (alignment <= QUANTUM) return malloc(size);
    if (alignment > CHUNK) {
        errno = ENOMEM;
        return NULL;
    }
    size_t power = alignment;
    while (power < size) power *= 2;
    return malloc(power);
}

EXPORT int posix_memalign(void **place, size_t alignment, size_t size) {
    void *const object = aligned_alloc(alignment, size);
    if (object == NULL) return ENOMEM;
    *place = object;
    return 0;
}

EXPORT void *memalign(size_t alignment, size_t size) {
    return aligned_alloc(alignment, size);
}
