// Tests, in a wholly static program, that the library completes its own descriptors of restartable sequences alone: one that somebody else
// put into the section where such things are gathered by custom stays as it was (VMAG_CONF=front:cpu).
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <stdint.h>

struct descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));

static volatile struct descriptor foreign __attribute__((section("__rseq_cs"), used)) = { .start = 0x1000, .length = 16, .abort = 0x2000 };

int main(void) {
    void *volatile object = malloc(10);

    CHECK(object != NULL);
    free(object);
    CHECK_EQ(foreign.version, 0);
    CHECK_EQ(foreign.flags, 0);
    CHECK_EQ(foreign.start, 0x1000);
    CHECK_EQ(foreign.length, 16);
    CHECK_EQ(foreign.abort, 0x2000);
    return 0;
}
