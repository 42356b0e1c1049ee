// The traced side of emulated.py: tells where everything is, then runs for ever what it is told to, one operation after the other, on an
// area of its own: the emulator has no restartable sequences, its debugger does what the kernel would.
// SPDX-License-Identifier: BSD-2-Clause
#include "sequences.h"

#include <signal.h>

static struct {
    uint32_t before, cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, node_id, mm_cid, padding;
} area __attribute__((aligned(32)));

static struct {
    uint64_t operation, meddling, right; // the first two are told us
} task;

// The debugger stops here.
static __attribute__((noinline)) void before(void) {
    __asm__ volatile("# before" : : : "memory");
}

static __attribute__((noinline)) void after(void) {
    __asm__ volatile("# after" : : : "memory");
}

static void tell(const char *format, uint64_t value) {
    printf(format, (unsigned long)value);
}

int main(void) {
    static struct shared memory;

    shared = &memory;
    os_rseq_complete();
    os_rseq_area = (char *)&area - (char *)rseq_field(0);
    tell("{\"before\": %lu", (uintptr_t)before);
    tell(", \"after\": %lu", (uintptr_t)after);
    tell(", \"area\": %lu", (uintptr_t)&area);
    tell(", \"task\": %lu", (uintptr_t)&task);
    tell(", \"top\": %lu", (uintptr_t)&shared->top[1]);
    tell(", \"number\": %lu", (uintptr_t)&shared->number);
    tell(", \"closed\": %lu, \"sequences\": {", (uintptr_t)&shared->closed[1]);
    for (enum operation operation = 0; operation < OPERATIONS; operation++) {
        const struct descriptor *at = descriptor_of(operation);

        printf("%s\"%s\": ", operation == 0 ? "" : ", ", names[operation]);
        tell("[%lu", (uintptr_t)at);
        tell(", %lu", at->start);
        tell(", %lu", at->length);
        tell(", %lu]", at->abort);
    }
    printf("}}\n");
    fflush(stdout);
    raise(SIGTRAP); // stops it for the first time
    for (;;) {
        reset();
        before();
        operate[task.operation]();
        task.right = right((enum operation)task.operation, (enum meddling)task.meddling);
        after();
    }
}
