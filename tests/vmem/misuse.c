// Tests that misuse of arenas ends the process with one line that says what was wrong; and what a leak is told like.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>

#include "../check.h"

#define AT(integer) ((void *)(uintptr_t)(integer))

static vmag_vmem_t *arena;

static void free_unknown(void) { vmag_vmem_free(arena, AT(150), 1); }
static void free_foreign(void) { vmag_vmem_free(arena, AT(1 << 20), 8); }
static void free_interior(void) { vmag_vmem_free(arena, (char *)vmag_vmem_alloc(arena, 8, 0) + 1, 7); }
static void free_smaller(void) { vmag_vmem_free(arena, vmag_vmem_alloc(arena, 8, 0), 7); }
static void free_larger(void) { vmag_vmem_xfree(arena, vmag_vmem_alloc(arena, 8, 0), 9); }
static void free_within_quantum(void) {
    vmag_vmem_t *even = vmag_vmem_create("even", AT(4096), 4096, 64, NULL, NULL, NULL, 0, 0);

    vmag_vmem_alloc(even, 64, 0);
    vmag_vmem_free(even, vmag_vmem_alloc(even, 5, 0), 64);
}
static void free_nothing(void) { vmag_vmem_free(arena, vmag_vmem_alloc(arena, 8, 0), 0); }
static void free_null(void) { vmag_vmem_free(arena, NULL, 8); }
static void free_twice(void) {
    void *once = vmag_vmem_alloc(arena, 8, 0);

    vmag_vmem_free(arena, once, 8);
    vmag_vmem_free(arena, once, 8);
}
static void free_elsewhere(void) {
    vmag_vmem_t *other = vmag_vmem_create("other", AT(100), 100, 1, NULL, NULL, NULL, 0, 0);

    vmag_vmem_free(arena, vmag_vmem_alloc(other, 3, 0), 3);
}
static void alloc_nothing(void) { vmag_vmem_alloc(arena, 0, VMAG_VM_NOSLEEP); }
static void alloc_panic(void) { vmag_vmem_alloc(arena, 1000, VMAG_VM_PANIC); }
static void align_odd(void) { vmag_vmem_xalloc(arena, 1, 48, 0, 0, NULL, NULL, 0); }
static void phase_beyond(void) { vmag_vmem_xalloc(arena, 1, 64, 64, 0, NULL, NULL, 0); }
static void nocross_small(void) { vmag_vmem_xalloc(arena, 65, 0, 0, 64, NULL, NULL, 0); }
static void nocross_phase(void) { vmag_vmem_xalloc(arena, 20, 64, 50, 64, NULL, NULL, 0); }
static void add_nothing(void) { vmag_vmem_add(arena, AT(1000), 0, 0); }
static void add_null(void) { vmag_vmem_add(arena, NULL, 10, 0); }
static void add_twice(void) { vmag_vmem_add(arena, AT(199), 10, 0); }

static void *crooked(vmag_vmem_t *source, size_t size, int flags) {
    (void)source, (void)size, (void)flags;
    return AT(4097);
}
static void import_crooked(void) {
    vmag_vmem_alloc(vmag_vmem_create("crooked", NULL, 0, 16, crooked, NULL, NULL, 0, 0), 16, 0);
}

static void leak(void) {
    vmag_vmem_alloc(arena, 8, 0);
    vmag_vmem_alloc(arena, 3, 0);
    vmag_vmem_destroy(arena);
}

static const struct {
    void (*misuse)(void);
    const char *line;
} cases[] = {
    {free_unknown, "vmag: vmag_vmem_free(0x96): ports: no segment of 1 bytes is allocated there\n"},
    {free_foreign, "vmag: vmag_vmem_free(0x100000): ports: not an integer of this arena (8 bytes)\n"},
    {free_interior, "vmag: vmag_vmem_free(0x65): ports: no segment of 7 bytes is allocated there\n"},
    {free_smaller, "vmag: vmag_vmem_free(0x64): ports: freed with another size than the segment's, 8 bytes\n"},
    {free_within_quantum, "vmag: vmag_vmem_free(0x1040): even: freed with another size than the segment's, 5 bytes\n"},
    {free_larger, "vmag: vmag_vmem_xfree(0x64): ports: freed with another size than the segment's, 8 bytes\n"},
    {free_nothing, "vmag: vmag_vmem_free(0x64): ports: freed with another size than the segment's, 8 bytes\n"},
    {free_null, "vmag: vmag_vmem_free(0x0): ports: not an integer of this arena (8 bytes)\n"},
    {free_twice, "vmag: vmag_vmem_free(0x64): ports: no segment of 8 bytes is allocated there\n"},
    {free_elsewhere, "vmag: vmag_vmem_free(0x64): ports: no segment of 3 bytes is allocated there\n"},
    {alloc_nothing, "vmag: vmag_vmem_alloc: ports: size 0\n"},
    {alloc_panic, "vmag: vmag_vmem_alloc: ports: no room for 1000 bytes, and the flags say VM_PANIC\n"},
    {align_odd, "vmag: vmag_vmem_xalloc: ports: align and nocross must be powers of two (size 1)\n"},
    {phase_beyond, "vmag: vmag_vmem_xalloc: ports: phase must be less than align (size 1)\n"},
    {nocross_small, "vmag: vmag_vmem_xalloc: ports: wherever it begins, it crosses a multiple of nocross (size 65)\n"},
    {nocross_phase, "vmag: vmag_vmem_xalloc: ports: wherever it begins, it crosses a multiple of nocross (size 20)\n"},
    {add_nothing, "vmag: vmag_vmem_add(0x3e8): ports: not a span of the arena's quantum: 0 bytes\n"},
    {add_null, "vmag: vmag_vmem_add(0x0): ports: not a span of the arena's quantum: 10 bytes\n"},
    {add_twice, "vmag: vmag_vmem_add(0xc7): ports: the arena has some of these 10 integers already\n"},
    {import_crooked, "vmag: import(0x1001): crooked: not aligned to the arena's quantum, 16\n"},
    {leak, "vmag: vmag_vmem_destroy: arena \"ports\": 11 bytes in 2 segments are still allocated\n"},
};

// Runs the misuse in a process of its own; what it says on stderr, and how it ends.
static int run(void (*misuse)(void), char *said, size_t size) {
    int ends[2], status;
    size_t length = 0;

    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        arena = vmag_vmem_create("ports", AT(100), 100, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
        misuse();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; length < size - 1 && (got = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = 0;
    close(ends[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[1024];
        int status = run(cases[i].misuse, said, sizeof said);

        CHECK_SAY(!strcmp(said, cases[i].line), "case %zu said: %s", i, said);
        if (cases[i].misuse == leak)
            CHECK_EQ(status, 0);
        else
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    return 0;
}
