// Exercises arenas while memory system calls are refused (nomem/inject.c): NOSLEEP fails cleanly, freeing never fails, and
// afterwards nothing is lost.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "../check.h"
#include "../nomem/window.h"

enum { SEGMENTS = 3000, LARGEST = 6000 };

static void *got[SEGMENTS];

static size_t size_of(size_t i) {
    return 1 + i * 7919 % LARGEST;
}

// More tags and buckets than the library's first blocks hold.
static void use(vmag_vmem_t *arena) {
    for (size_t i = 0; i < SEGMENTS; i++) {
        errno = 0;
        got[i] = vmag_vmem_alloc(arena, size_of(i), VMAG_VM_NOSLEEP | (i % 2 == 0 ? VMAG_VM_BESTFIT : 0));
        CHECK(got[i] != NULL || errno == ENOMEM);
    }
    for (size_t i = 0; i < SEGMENTS; i++) {
        size_t at = i * 11 % SEGMENTS;

        if (got[at] != NULL)
            vmag_vmem_free(arena, got[at], size_of(at));
    }
}

static vmag_vmem_t *create(const char *name, vmag_vmem_t *source, size_t qcache_max) {
    vmag_vmem_alloc_t *import;
    vmag_vmem_free_t *release;
    vmag_vmem_t *heap;

    errno = 0;
    heap = vmag_vmem_heap_arena(&import, &release);
    if (source == NULL)
        source = heap;
    if (source == NULL)
        return NULL;
    vmag_vmem_t *arena = vmag_vmem_create(name, NULL, 0, 16, import, release, source, qcache_max, VMAG_VM_NOSLEEP);
    CHECK(arena != NULL || errno == ENOMEM);
    return arena;
}

int main(void) {
    vmag_vmem_t *plain, *cached;

    prctl(WINDOW_OPEN, 0, 0, 0, 0);
    plain = create("plain", NULL, 0);
    cached = plain == NULL ? NULL : create("cached", plain, 256);
    if (cached != NULL)
        use(cached);
    if (plain != NULL)
        use(plain);
    prctl(WINDOW_CLOSE, 0, 0, 0, 0);
    if (cached != NULL)
        vmag_vmem_destroy(cached);
    if (plain != NULL) {
        CHECK_EQ(vmag_vmem_size(plain, VMAG_VMEM_SPAN), 0);
        vmag_vmem_destroy(plain);
    }
    return 0;
}
