// Tests arenas under many threads: no integer has two owners, imports and releases balance, walks and fork get along with all.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../check.h"
#include "../support/child.h"

#define AT(integer) ((void *)(uintptr_t)(integer))
enum { THREADS = 4, INTEGERS = 1 << 16, LIVES = 100, STEPS = 40000, FORKS = 25 };

static _Atomic unsigned char owner[INTEGERS + 1];
static vmag_vmem_t *source, *child;
static _Atomic int stop;

static void own(uintptr_t start, size_t size, int by) {
    for (uintptr_t i = start; i < start + size; i++)
        CHECK(i >= 1 && i <= INTEGERS && atomic_fetch_add(&owner[i], (unsigned char)by) == (by > 0 ? 0 : 1));
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static void *work(void *argument) {
    static const int policies[] = {VMAG_VM_INSTANTFIT, VMAG_VM_BESTFIT, VMAG_VM_FIRSTFIT, VMAG_VM_NEXTFIT};
    uint64_t random = 77 + (uintptr_t)argument;
    uintptr_t start[LIVES] = {0};
    size_t size[LIVES];

    for (int step = 0; step < STEPS; step++) {
        size_t i = next(&random) % LIVES;

        if (start[i] != 0) {
            own(start[i], size[i], -1);
            vmag_vmem_xfree(child, AT(start[i]), size[i]);
            start[i] = 0;
            continue;
        }
        size[i] = 1 + next(&random) % 30;
        size_t align = next(&random) % 4 == 0 ? (size_t)1 << next(&random) % 6 : 0;
        start[i] = (uintptr_t)vmag_vmem_xalloc(child, size[i], align, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP | policies[step % 4]);
        if (start[i] != 0)
            own(start[i], size[i], 1);
    }
    for (size_t i = 0; i < LIVES; i++)
        if (start[i] != 0) {
            own(start[i], size[i], -1);
            vmag_vmem_xfree(child, AT(start[i]), size[i]);
        }
    return NULL;
}

static void count(void *sum, void *address, size_t size) {
    CHECK((uintptr_t)address >= 1 && (uintptr_t)address + size <= INTEGERS + 1);
    *(size_t *)sum += size;
}

static void look_at(void *sum, vmag_vmem_t *arena) {
    vmag_vmem_walk(arena, VMAG_VMEM_ALLOC | VMAG_VMEM_FREE | VMAG_VMEM_SPAN, count, sum);
}

static void *look(void *argument) {
    while (!atomic_load(&stop)) {
        size_t sum = 0;

        vmag_vmem_each(look_at, &sum);
        CHECK_LE(vmag_vmem_size(source, VMAG_VMEM_FREE), INTEGERS);
        vmag_vmem_destroy(vmag_vmem_create("short life", AT(1), 10, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP));
    }
    return argument;
}

// The child of the fork finds every lock free, and the arenas whole.
static void fork_and_use(void) {
    pid_t pid = fork();

    if (pid == 0) {
        size_t sum = 0;
        void *one = vmag_vmem_alloc(child, 5, VMAG_VM_NOSLEEP | VMAG_VM_NEXTFIT);

        if (one != NULL)
            vmag_vmem_free(child, one, 5);
        vmag_vmem_each(look_at, &sum);
        _exit(sum > 0 ? 0 : 1);
    }
    expect_child(pid);
}

// A fork in the middle of a walk: both sides walk on.
static void fork_once(void *forked, void *address, size_t size) {
    count(forked, address, size);
    if (*(size_t *)forked == size)
        fork_and_use();
}

int main(void) {
    pthread_t threads[THREADS], looker;
    size_t sum = 0;

    source = vmag_vmem_create("source", AT(1), INTEGERS, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    child = vmag_vmem_create("child", NULL, 0, 1, vmag_vmem_alloc, vmag_vmem_free, source, 0, VMAG_VM_SLEEP);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, AT(i)), 0);
    CHECK_EQ(pthread_create(&looker, NULL, look, NULL), 0);
    for (int i = 0; i < FORKS; i++)
        fork_and_use();
    vmag_vmem_walk(source, VMAG_VMEM_ALLOC | VMAG_VMEM_FREE, fork_once, &sum);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    atomic_store(&stop, 1);
    CHECK_EQ(pthread_join(looker, NULL), 0);
    CHECK_EQ(vmag_vmem_size(child, VMAG_VMEM_SPAN), 0);
    CHECK_EQ(vmag_vmem_size(source, VMAG_VMEM_MAXFREE), INTEGERS);
    vmag_vmem_destroy(child);
    vmag_vmem_destroy(source);
    return 0;
}
