// A process that shuts itself in as sshd's child does before a login: any system call but those of memory, time and waiting ends it. It allocates and gives
// back as its program does elsewhere, whether it or its parent had the library's thread, or it never allocated before.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { OBJECTS = 64, ROUNDS = 20, REFUSED = 3, WELL = 7, PAUSE_US = 20000 };

static bool shut_in(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_getrandom), ALLOW(SYS_futex),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_close), ALLOW(SYS_getpid), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_clock_gettime), ALLOW(SYS_nanosleep),
        ALLOW(SYS_clock_nanosleep), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void use(size_t bytes) {
    char *objects[OBJECTS];

    for (int i = 0; i < OBJECTS; i++)
        memset(objects[i] = malloc(bytes), 1, bytes);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

// `parent`, `before`: the bytes of each object that it, and its child before it shuts itself in, uses; 0: none.
static void run(size_t parent, size_t before, size_t after) {
    int status;
    pid_t child;

    if (parent > 0)
        use(parent);
    child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        if (before > 0) {
            use(before);
            usleep(PAUSE_US); // its thread begins
        }
        if (!shut_in())
            _exit(REFUSED);
        for (int round = 0; round < ROUNDS; round++) {
            use(after);
            usleep(PAUSE_US);
        }
        _exit(WELL);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == WELL, "%zu, %zu, %zu bytes: status %d", parent, before, after, status);
}

int main(void) {
    run(0, 0, 500); // no allocation before
    run(0, 0, 64 << 10);
    run(0, 256 << 10, 500);
    run(0, 500, 256 << 10); // the heap grows large there
    run(256 << 10, 0, 500);
    run(64 << 10, 64 << 10, 64 << 10);
    CHECK_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0); // the parent is as it was
    return 0;
}
#else
int main(void) {
    SKIP("no headers for filters of system calls");
}
#endif
