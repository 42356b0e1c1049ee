// Tests vmem/resource.h: what the kernel does not unmap of the arena of mapped pages is not resident, and is used again.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/resource.h"

#include "os/pages.h"
#include "unit.h"

enum { SPANS = 8, SPAN_BYTES = 1 << 20 };

static bool refuses;

bool __real_os_pages_unmap(void *address, size_t size);
bool __wrap_os_pages_unmap(void *address, size_t size);
bool __wrap_os_pages_unmap(void *address, size_t size) {
    return !refuses && __real_os_pages_unmap(address, size);
}

static uintptr_t spans[SPANS];

static void allocate(struct vmag_vmem *arena) {
    for (int i = 0; i < SPANS; i++) {
        CHECK((spans[i] = resource_alloc(arena, SPAN_BYTES, VMAG_VM_NOSLEEP, "test")) != 0);
        memset((void *)spans[i], 1, SPAN_BYTES);
    }
}

static void release(struct vmag_vmem *arena, bool refuse) {
    refuses = refuse;
    for (int i = 0; i < SPANS; i++)
        resource_free(arena, spans[i], SPAN_BYTES, "test");
    refuses = false;
}

int main(void) {
    struct vmag_vmem *arena = resource_heap_arena();

    CHECK(arena != NULL);
    for (int round = 0; round < 3; round++) {
        allocate(arena);
        CHECK_EQ(resource_size(arena, VMAG_VMEM_SPAN), SPANS * SPAN_BYTES);
        release(arena, true);
        CHECK_EQ(resource_size(arena, VMAG_VMEM_FREE), SPANS * SPAN_BYTES);
        for (int i = 0; i < SPANS; i++)
            CHECK_EQ(os_pages_resident((void *)spans[i], SPAN_BYTES), 0);
        vmem_check(&arena->segments);
    }
    allocate(arena);
    release(arena, false);
    CHECK_EQ(resource_size(arena, VMAG_VMEM_SPAN), 0);
    return 0;
}
