// Tests vmem/resource.h when memory for its own metadata runs out: every single allocation of it fails once, and from every one
// on all fail. What may not sleep fails cleanly; what sleeps comes through; freeing always works.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/resource.h"

#include <errno.h>
#include <pthread.h>

#include "unit.h"

enum { SEGMENTS = 300 };

// The linker sends the calls of the library here.
void *__real_base_alloc(size_t size);
void *__wrap_base_alloc(size_t size);
void *__real_os_pages_map_for_program(size_t size);
void *__wrap_os_pages_map_for_program(size_t size);

static _Atomic long calls, fail_from, fail_to;

static bool fails(void) {
    long call = atomic_fetch_add(&calls, 1) + 1;

    return call >= atomic_load(&fail_from) && call < atomic_load(&fail_to);
}

void *__wrap_base_alloc(size_t size) {
    return fails() ? NULL : __real_base_alloc(size);
}

void *__wrap_os_pages_map_for_program(size_t size) {
    return fails() ? NULL : __real_os_pages_map_for_program(size);
}

static void *import(struct vmag_vmem *source, size_t size, int flags) {
    return (void *)resource_alloc(source, size, flags, "import");
}

static void give_back(struct vmag_vmem *source, void *address, size_t size) {
    resource_free(source, (uintptr_t)address, size, "release");
}

static struct vmag_vmem *create(struct vmag_vmem *source, int flags) {
    struct vmag_vmem *arena;

    errno = 0;
    arena = source == NULL ? resource_create("source", 4096, 1 << 24, 4096, NULL, NULL, NULL, 0, flags) :
                             resource_create("child", 0, 0, 1, import, give_back, source, 0, flags);
    CHECK(arena != NULL || errno == ENOMEM);
    return arena;
}

// The size of the n-th segment.
static size_t size_of(size_t n) {
    return 1 + n * 37 % 5000;
}

// Allocates all it can, frees all of it. Returns how many requests failed.
static size_t use(struct vmag_vmem *arena, int flags) {
    static uintptr_t start[SEGMENTS];
    struct vmem_constraint aligned = {.align = 64, .phase = 3};
    size_t failed = 0;

    for (size_t i = 0; i < SEGMENTS; i++) {
        errno = 0;
        start[i] = resource_xalloc(arena, size_of(i), i % 5 == 0 ? &aligned : NULL, flags | (i % 3 == 0 ? VMAG_VM_NEXTFIT : 0), "test");
        CHECK(start[i] != 0 || errno == ENOMEM);
        failed += start[i] == 0;
    }
    vmem_check(&arena->segments);
    for (size_t step = 7, i = 0; i < SEGMENTS; i++) {
        size_t at = i * step % SEGMENTS;

        if (start[at] != 0)
            resource_free(arena, start[at], size_of(at), "test");
    }
    vmem_check(&arena->segments);
    CHECK(resource_size(arena, VMAG_VMEM_ALLOC) == 0 && resource_size(arena, VMAG_VMEM_SPAN) == 0);
    return failed;
}

// Returns whether all went well.
static bool scenario(int flags) {
    struct vmag_vmem *source = create(NULL, flags), *child = source == NULL ? NULL : create(source, flags);
    size_t failed = child == NULL ? 1 : use(child, flags);

    if (child != NULL)
        resource_destroy(child);
    if (source != NULL) {
        CHECK_EQ(resource_size(source, VMAG_VMEM_ALLOC), 0);
        vmem_check(&source->segments);
        resource_destroy(source);
    }
    return failed == 0;
}

static bool scenario_failing(long from, long to, int flags) {
    atomic_store(&calls, 0);
    atomic_store(&fail_from, from);
    atomic_store(&fail_to, to);
    return scenario(flags);
}

// Every allocation of metadata, one at a time and all from there on.
static void every_failure(void) {
    long n, failures = 0;

    CHECK(scenario_failing(0, 0, VMAG_VM_NOSLEEP));
    long all = atomic_load(&calls);
    for (n = 1; n <= all; n++) {
        failures += !scenario_failing(n, n + 1, VMAG_VM_NOSLEEP);
        CHECK(!scenario_failing(n, 1L << 40, VMAG_VM_NOSLEEP) || n > all - 5); // the hash may stay small
    }
    CHECK_GT(all, 100);
    CHECK_GT(failures, all / 2);
    say("%ld allocations of metadata, %ld of them fail a request", all, failures);
}

// Who may sleep does so, and comes through.
static void sleepers_come_through(void) {
    for (long n = 1; n < 40; n += 13)
        CHECK(scenario_failing(n, n + 2, VMAG_VM_SLEEP));
}

// With no memory at all, everything that is allocated can be freed, in any order.
static void freeing_needs_nothing(void) {
    struct vmag_vmem *source = create(NULL, VMAG_VM_SLEEP), *child = create(source, VMAG_VM_SLEEP);
    static uintptr_t start[SEGMENTS];

    for (int order = 0; order < 7; order++) {
        atomic_store(&fail_to, 0);
        for (size_t i = 0; i < SEGMENTS; i++)
            start[i] = resource_alloc(child, size_of(i), VMAG_VM_SLEEP, "test");
        atomic_store(&calls, 0);
        atomic_store(&fail_from, 0);
        atomic_store(&fail_to, 1L << 40);
        for (size_t i = 0; i < SEGMENTS; i++) {
            size_t at = (i * (size_t[]){1, 7, 11, 13, 17, 19, 23}[order] + (size_t)order) % SEGMENTS;

            resource_free(child, start[at], size_of(at), "test");
        }
        CHECK(resource_size(child, VMAG_VMEM_SPAN) == 0 && resource_size(source, VMAG_VMEM_ALLOC) == 0);
    }
    resource_destroy(child);
    resource_destroy(source);
    atomic_store(&fail_to, 0);
}

int main(void) {
    every_failure();
    sleepers_come_through();
    freeing_needs_nothing();
    return 0;
}
