// Tests that an arena's quantum caches serve again, and the fast way of freeing is open again, once what went past them is freed.
// SPDX-License-Identifier: BSD-2-Clause
#include "cache/quantum.h"

#include <stdatomic.h>
#include <vmag/vmem.h>

#include "unit.h"

enum { INTEGERS = 70, QCACHE_MOST = 4 }; // a slab of 64, and six that no slab has place for

int main(void) {
    vmag_vmem_t *ids = vmag_vmem_create("ids", (void *)1, INTEGERS, 1, NULL, NULL, NULL, QCACHE_MOST, VMAG_VM_SLEEP);
    void *got[INTEGERS];

    CHECK(ids != NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < INTEGERS; i++)
            CHECK((got[i] = vmag_vmem_alloc(ids, 1, VMAG_VM_NOSLEEP)) != NULL);
        CHECK_EQ(atomic_load(&ids->direct), INTEGERS - 64);
        CHECK_EQ(ids->short_free_max, 0); // each free has to be looked at
        for (int i = 0; i < INTEGERS; i++)
            vmag_vmem_free(ids, got[(i + round) % INTEGERS], 1);
        CHECK_EQ(atomic_load(&ids->direct), 0);
        CHECK_EQ(ids->short_free_max, QCACHE_MOST);
    }
    vmag_vmem_destroy(ids);
    return 0;
}
