// A sandbox that keeps the kernel from reading the process's memory: a walk tells what the program has as long as nobody else has magazines
// of the cache, and else nothing.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <vmag/cache.h>

#include "../support/forbid.h"

enum { OBJECTS = 100 };

static vmag_cache_t *cache;

static void count(void *told, void *object) {
    (void)object;
    ++*(int *)told;
}

static void cache_some(void) {
    void *objects[OBJECTS];

    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        vmag_cache_free(cache, objects[i]);
}

static pthread_barrier_t barrier;

static void *stay(void *unused) {
    cache_some();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void) {
    int told = 0;
    pthread_t other;

    cache = vmag_cache_create("sandboxed", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    if (!forbid_call(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM))
        SKIP("the system has no filters of system calls");
    cache_some();
    CHECK(vmag_cache_alloc(cache, VMAG_NOSLEEP) != NULL);
    CHECK(vmag_cache_walk(cache, count, &told));
    CHECK_EQ(told, 1);
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&other, NULL, stay, NULL), 0);
    pthread_barrier_wait(&barrier);
    if (vmag_cache_walk(cache, count, &told)) // fronts of processors can be read
        CHECK_EQ(told, 2);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(other, NULL), 0);
    told = 0;
    CHECK(vmag_cache_walk(cache, count, &told));
    CHECK_EQ(told, 1);
    return 0;
}
#else
int main(void) {
    SKIP("no header of the kernel's filters");
}
#endif
