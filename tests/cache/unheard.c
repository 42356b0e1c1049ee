// A thread that has magazines of a cache ends by the system's call alone, and its stack is gone. Then another one waits for an object of a cache: it
// closes all threads' doors, but not where none is left.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmag/cache.h"
#include "vmag/vmem.h"

enum { STACK_BYTES = 256 << 10, PLACES_BYTES = 64 << 10, OBJECTS = 50, OBJECT_BYTES = 2048, MOST = PLACES_BYTES / OBJECT_BYTES, PAUSE_US = 100000 };

static vmag_cache_t *cache;

static void *end_unheard(void *unused) {
    void *objects[OBJECTS];

    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        vmag_cache_free(cache, objects[i]);
    syscall(SYS_exit, 0);
    return unused;
}

static void *free_later(void *argument) {
    struct {
        vmag_cache_t *cache;
        void *object;
    } *later = argument;

    usleep(PAUSE_US);
    vmag_cache_free(later->cache, later->object);
    return NULL;
}

int main(void) {
    static _Alignas(4096) char places[PLACES_BYTES];
    vmag_vmem_t *arena = vmag_vmem_create("places", places, PLACES_BYTES, 4096, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *last = NULL, *object;
    struct {
        vmag_cache_t *cache;
        void *object;
    } later;
    pthread_attr_t attributes;
    pthread_t thread;

    cache = vmag_cache_create("of the heap", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    later.cache = vmag_cache_create("of few places", OBJECT_BYTES, 0, NULL, NULL, NULL, NULL, arena, 0);
    CHECK(stack != MAP_FAILED && arena != NULL && cache != NULL && later.cache != NULL);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, end_unheard, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    usleep(PAUSE_US); // the system is done with it
    CHECK_EQ(mprotect(stack, STACK_BYTES, PROT_NONE), 0); // as if unmapped, and nobody else's
    while ((object = vmag_cache_alloc(later.cache, VMAG_NOSLEEP)) != NULL)
        last = object;
    CHECK(last != NULL);
    later.object = last;
    CHECK_EQ(pthread_create(&thread, NULL, free_later, &later), 0);
    CHECK(vmag_cache_alloc(later.cache, VMAG_SLEEP) != NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
