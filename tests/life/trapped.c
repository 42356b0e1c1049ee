// A program that has its memory calls trapped by a filter of its own and makes them in its handler for SIGSYS: no thread of the library makes one with that blocked.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../check.h"

#if defined(__x86_64__)
// As syscall(2), at an address that the filter knows.
long let_through(long number, long a, long b, long c, long d, long e, long f);
extern const char let_through_end[];
__asm__(".text\n.globl let_through, let_through_end\nlet_through:\n\tmov %rdi, %rax\n\tmov %rsi, %rdi\n\tmov %rdx, %rsi\n\tmov %rcx, %rdx\n"
        "\tmov %r8, %r10\n\tmov %r9, %r8\n\tmov 8(%rsp), %r9\n\tsyscall\nlet_through_end:\n\tret\n");

static _Atomic unsigned trapped, elsewhere;
static pthread_t first;

static void serve(int signal, siginfo_t *about, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int saved = errno;

    (void)signal;
    trapped++;
    elsewhere += pthread_equal(pthread_self(), first) == 0;
    registers[REG_RAX] = let_through(about->si_syscall, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10], registers[REG_R8], registers[REG_R9]);
    errno = saved;
}

static void trap_memory_calls(void) {
    struct sigaction action = {.sa_sigaction = serve, .sa_flags = SA_SIGINFO | SA_NODEFER};
    uintptr_t end = (uintptr_t)let_through_end;
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)end, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(end >> 32), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof steps / sizeof steps[0], steps};

    CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
    // Not by prctl or syscall, which would tell the library, and then there is no thread.
    long refused = let_through(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);

    CHECK_EQ(refused, 0);
    refused = let_through(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0, 0, 0);
    if (refused != 0) {
        say("no filters here: errno %ld", -refused);
        exit(SKIPPED);
    }
}

// Leaves behind what the background thread gives back.
static void allocate_and_free(void) {
    static char *objects[2000];

    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        CHECK((objects[i] = malloc(20000)) != NULL);
        memset(objects[i], (int)i, 20000);
    }
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        free(objects[i]);
}

int main(void) {
    const struct timespec while_it_looks = {0, 50 * 1000 * 1000};
    time_t end = time(NULL) + 300;

    first = pthread_self();
    trap_memory_calls();
    while (elsewhere == 0 && time(NULL) < end) {
        allocate_and_free();
        nanosleep(&while_it_looks, NULL);
    }
    say("%u calls trapped, %u in another thread", trapped, elsewhere);
    CHECK(trapped > 0 && elsewhere > 0);
    return 0;
}
#else
int main(void) {
    return SKIPPED;
}
#endif
