// The n-th allocation of metadata fails, for each n: NOSLEEP fails cleanly or not at all, freeing and destroying never fail, and
// nothing is lost. base_alloc and base_alloc_table are wrapped by the linker.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <pthread.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "support/balanced.h"
#include "unit.h"

enum { OBJECTS = 300, CACHES = 40 };

void *__real_base_alloc(size_t size);
void *__real_base_alloc_table(size_t size);
void *__wrap_base_alloc(size_t size);
void *__wrap_base_alloc_table(size_t size);

static _Atomic long calls, failing; // 0: none
static int onward;

static bool fails(void) {
    long call = ++calls;

    return failing != 0 && (call == failing || (onward && call > failing));
}

void *__wrap_base_alloc(size_t size) {
    return fails() ? NULL : __real_base_alloc(size);
}

void *__wrap_base_alloc_table(size_t size) {
    return fails() ? NULL : __real_base_alloc_table(size);
}

static enum vmag_move_answer move(void *from, void *to, size_t size, void *argument) {
    (void)from, (void)to, (void)size, (void)argument;
    return VMAG_MOVE_DONT_KNOW;
}

static void count_one(void *argument, void *object) {
    (void)object;
    ++*(size_t *)argument;
}

static void use(vmag_cache_t *cache) {
    void *objects[OBJECTS];
    size_t got = 0, seen = 0;
    vmag_reserve_t *reserve;

    for (size_t i = 0; i < OBJECTS; i++) {
        errno = 0;
        objects[got] = vmag_cache_alloc(cache, VMAG_NOSLEEP);
        CHECK(objects[got] != NULL || errno == ENOMEM);
        got += objects[got] != NULL;
    }
    if (vmag_cache_walk(cache, count_one, &seen))
        CHECK_EQ(seen, got);
    vmag_cache_set_move(cache, move);
    for (size_t i = got; i > got / 20; i--)
        vmag_cache_free(cache, objects[i - 1]);
    vmag_cache_consolidate(cache);
    for (size_t i = 0; i < got / 20; i++)
        vmag_cache_free(cache, objects[i]);
    reserve = vmag_cache_reserve(cache, 50, VMAG_NOSLEEP);
    for (size_t i = 0; reserve != NULL && i < 50; i++)
        vmag_cache_free(cache, vmag_reserve_alloc(reserve));
    vmag_reserve_release(reserve);
}

static void *use_in_thread(void *cache) {
    use(cache);
    return NULL;
}

static void exercise(vmag_vmem_t *arena) {
    vmag_cache_t *caches[CACHES];
    pthread_t thread;

    for (int i = 0; i < CACHES; i++) { // more than a thread's first table holds
        bool resource = i % 3 == 2;

        errno = 0;
        caches[i] = vmag_cache_create("inject", resource ? 1 : 3000, 0, resource ? NULL : construct, resource ? NULL : destruct, NULL,
                                      NULL, resource ? arena : NULL, resource ? VMAG_CACHE_NOTOUCH : 0);
        CHECK(caches[i] != NULL || errno == EAGAIN);
    }
    for (int i = CACHES - 1; i >= CACHES - 3; i--) // tables, magazines, slabs, buckets
        if (caches[i] != NULL) {
            use(caches[i]);
            if (pthread_create(&thread, NULL, use_in_thread, caches[i]) == 0)
                pthread_join(thread, NULL);
        }
    for (int i = 0; i < CACHES; i++)
        vmag_cache_destroy(caches[i]);
    CHECK_EQ(balance, 0);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_ALLOC), 0);
}

int main(void) {
    vmag_vmem_t *arena = vmag_vmem_create("ids", (void *)1, 100000, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);

    exercise(arena); // the heap is up
    for (onward = 0; onward <= 1; onward++) {
        bool reached = true;

        for (long n = 1; reached; n++) {
            calls = 0;
            failing = n;
            exercise(arena);
            reached = calls >= n;
            failing = 0;
        }
        say("%s: up to %ld allocations of metadata", onward ? "from the n-th on" : "the n-th alone", (long)calls);
    }
    vmag_vmem_destroy(arena);
    return 0;
}
