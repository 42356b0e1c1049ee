// Tests the meanings of SLEEP and NOSLEEP: a sleeper gets what is freed, added, or freed in the arena it imports from.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "../check.h"

#define AT(integer) ((void *)(uintptr_t)(integer))

struct sleeper {
    pthread_t thread;
    vmag_vmem_t *arena;
    size_t size;
    void *got;
    _Atomic int done;
};

static double now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void *sleep_for_it(void *argument) {
    struct sleeper *sleeper = argument;

    sleeper->got = vmag_vmem_alloc(sleeper->arena, sleeper->size, VMAG_VM_SLEEP);
    atomic_store(&sleeper->done, 1);
    return NULL;
}

static uint64_t waits(vmag_vmem_t *arena) {
    struct vmag_vmem_stats stats;

    vmag_vmem_stats(arena, &stats, sizeof stats);
    return stats.waits;
}

// A thread that sleeps in the arena.
static void start_sleeper(struct sleeper *sleeper, vmag_vmem_t *arena, size_t size) {
    uint64_t before = waits(arena);

    *sleeper = (struct sleeper){.arena = arena, .size = size};
    CHECK_EQ(pthread_create(&sleeper->thread, NULL, sleep_for_it, sleeper), 0);
    while (waits(arena) == before)
        pause_ms(1);
    CHECK(!atomic_load(&sleeper->done));
}

static void *woken(struct sleeper *sleeper) {
    double begin = now();

    CHECK_EQ(pthread_join(sleeper->thread, NULL), 0);
    CHECK(now() - begin < 300);
    return sleeper->got;
}

static vmag_vmem_t *child_of(vmag_vmem_t *source) {
    return vmag_vmem_create("child", NULL, 0, 1, vmag_vmem_alloc, vmag_vmem_free, source, 0, VMAG_VM_SLEEP);
}

static void freed_and_added(void) {
    vmag_vmem_t *arena = vmag_vmem_create("arena", AT(10), 10, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    struct sleeper sleeper;

    CHECK(vmag_vmem_alloc(arena, 10, VMAG_VM_SLEEP) == AT(10));
    CHECK(vmag_vmem_alloc(arena, 1, VMAG_VM_NOSLEEP) == NULL && errno == ENOMEM);
    start_sleeper(&sleeper, arena, 10);
    vmag_vmem_free(arena, AT(10), 10);
    CHECK(woken(&sleeper) == AT(10));

    start_sleeper(&sleeper, arena, 20);
    vmag_vmem_free(arena, AT(10), 10); // wakes it, and is too little
    pause_ms(50);
    CHECK(!atomic_load(&sleeper.done));
    CHECK(vmag_vmem_add(arena, AT(100), 20, VMAG_VM_SLEEP) == AT(100));
    CHECK(woken(&sleeper) == AT(100));
    vmag_vmem_free(arena, AT(100), 20);
    vmag_vmem_destroy(arena);
}

// What the source gets back serves who sleeps in an arena that imports from it, and so does what its own arena gets.
static void freed_elsewhere(void) {
    vmag_vmem_t *source = vmag_vmem_create("source", AT(10), 10, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    vmag_vmem_t *one = child_of(source), *two = child_of(source), *grandchild = child_of(two);
    struct sleeper sleeper;

    void *all = vmag_vmem_alloc(one, 10, VMAG_VM_SLEEP);
    CHECK(all == AT(10));
    start_sleeper(&sleeper, grandchild, 4);
    vmag_vmem_free(one, all, 10);
    CHECK(woken(&sleeper) != NULL);
    void *rest = vmag_vmem_alloc(source, 6, VMAG_VM_NOSLEEP);
    CHECK(rest != NULL);
    void *held = sleeper.got;
    start_sleeper(&sleeper, grandchild, 4);
    vmag_vmem_free(grandchild, held, 4);
    CHECK(woken(&sleeper) != NULL);
    vmag_vmem_free(grandchild, sleeper.got, 4);
    vmag_vmem_free(source, rest, 6);
    vmag_vmem_destroy(grandchild);
    vmag_vmem_destroy(two);
    vmag_vmem_destroy(one);
    vmag_vmem_destroy(source);
}

// An import function that has nothing for a while, and tells nobody when it has: the sleeper asks again.
static _Atomic int refusals;

static void *late(vmag_vmem_t *source, size_t size, int flags) {
    CHECK(source == NULL && size == 8 && (flags & VMAG_VM_NOSLEEP));
    return atomic_fetch_sub(&refusals, 1) > 0 ? NULL : AT(800);
}

static void imported_late(void) {
    vmag_vmem_t *arena = vmag_vmem_create("late", NULL, 0, 8, late, NULL, NULL, 0, VMAG_VM_SLEEP);

    atomic_store(&refusals, 4);
    CHECK(vmag_vmem_alloc(arena, 3, VMAG_VM_SLEEP) == AT(800));
    CHECK_EQ(waits(arena), 3);
    vmag_vmem_free(arena, AT(800), 3);
    vmag_vmem_destroy(arena);
}

// More threads than integers: everybody gets his turn, nobody gets what another one has.
enum { THREADS = 8, INTEGERS = 3, TURNS = 3000 };
static _Atomic int owner[INTEGERS + 1];

static void *take_turns(void *arena) {
    for (int i = 0; i < TURNS; i++) {
        uintptr_t mine = (uintptr_t)vmag_vmem_alloc(arena, 1, VMAG_VM_SLEEP);

        CHECK(mine >= 1 && mine <= INTEGERS);
        CHECK_EQ(atomic_fetch_add(&owner[mine], 1), 0);
        atomic_fetch_sub(&owner[mine], 1);
        vmag_vmem_free(arena, AT(mine), 1);
    }
    return NULL;
}

static void crowd(void) {
    vmag_vmem_t *arena = vmag_vmem_create("crowd", AT(1), INTEGERS, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_turns, arena), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_MAXFREE), INTEGERS);
    vmag_vmem_destroy(arena);
}

int main(void) {
    freed_and_added();
    freed_elsewhere();
    imported_late();
    crowd();
    return 0;
}
