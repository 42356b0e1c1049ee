// Tests an import that forks while its thread waits: in the child nobody waits from before, this thread is counted anew, and once.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/resource.h"

#include <pthread.h>
#include <stdlib.h>

#include "../support/child.h"
#include "unit.h"

static struct vmag_vmem *arena, *source;
static pid_t child = -1;
static int imports;

static void expect_waiters(unsigned count) {
    CHECK_EQ(atomic_load(&arena->waiters), count);
    CHECK_EQ(atomic_load(&arena->care), count);
    CHECK_EQ(atomic_load(&source->waiters), count);
}

// Nothing at first, so that the thread waits; nothing when it forks, and in the child nothing once more.
static void *import(struct vmag_vmem *unused, size_t size, int flags) {
    (void)unused, (void)size, (void)flags;
    imports++;
    expect_waiters(imports > 1);
    if (imports == 2)
        CHECK_GE(child = fork(), 0);
    return imports < 4 ? NULL : (void *)4096;
}

// A fork of a process of one thread forgets nobody.
static void *be_another(void *here) {
    void *volatile block = malloc(100);

    free(block);
    pthread_barrier_wait(here);
    pause();
    return NULL;
}

int main(void) {
    pthread_barrier_t here;
    pthread_t other;

    pthread_barrier_init(&here, NULL, 2);
    CHECK_EQ(pthread_create(&other, NULL, be_another, &here), 0);
    pthread_barrier_wait(&here);
    source = resource_create("source", 8192, 4096, 4096, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    arena = resource_create("arena", 0, 0, 4096, import, NULL, source, 8192, VMAG_VM_SLEEP);
    resource_publish(source);
    resource_publish(arena);
    CHECK_EQ(resource_alloc(arena, 4096, VMAG_VM_SLEEP, "test"), 4096);
    CHECK_EQ(imports, 4);
    expect_waiters(0);
    CHECK_EQ(arena->short_free_max, 8192);
    resource_free(arena, 4096, 4096, "test");
    resource_destroy(arena);
    resource_destroy(source);
    if (child != 0)
        expect_child(child);
    return 0;
}
