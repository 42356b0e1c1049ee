// A process that shuts itself in with what memory, threads and time need and nothing else: no question who it is, no file, no signals. It ends as with any
// other malloc, and where there is no memory it is told so.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { REFUSED = 3, WELL = 7, NONE = 0xffff, MIB = 1 << 20, MOST = 1 << 20 };

// `refused`: what answers ENOMEM. No child leaves here that the system has no filters for.
static void shut_in(unsigned refused) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_getrandom), ALLOW(SYS_futex),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_close), ALLOW(SYS_clock_gettime), ALLOW(SYS_nanosleep), ALLOW(SYS_clock_nanosleep), ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(REFUSED);
}

static void expect(pid_t child, const char *what) {
    int status;

    CHECK_GE(child, 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == WELL, "%s: status %#x", what, (unsigned)status);
}

static void use(size_t bytes) {
    char *objects[40];

    for (int i = 0; i < 40; i++)
        memset(objects[i] = malloc(bytes), 1, bytes);
    for (int i = 0; i < 40; i++)
        free(objects[i]);
}

// By exit, with the destructors.
static void ends(void) {
    pid_t child = fork();

    if (child == 0) {
        use(500);
        shut_in(NONE);
        use(50000);
        exit(WELL);
    }
    expect(child, "exit");
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } cases[] = {
        {"exit", ends},
    };

    alarm(120);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (count == 2 && strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
#else
int main(void) {
    SKIP("no headers for filters of system calls");
}
#endif
