// A sandbox that ends who asks for a thread by number, as that of sshd does: a process of one thread asks for none, whether it has closed its doors
// (as the event trace does) alone all its life, or is the child of one that had threads.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { REFUSED = 3 };

// False: the system has no such filters, or an emulator none of them.
static bool enter_sandbox(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void use(void) {
    void *volatile objects[40];

    for (size_t i = 0; i < 40; i++)
        objects[i] = malloc(i * 50);
    for (int i = 0; i < 40; i++)
        free(objects[i]);
}

static void trace(bool on) {
    CHECK_EQ(mallctl("trace.active", NULL, NULL, &on, sizeof on), 0);
}

static void run_in_sandbox(void) {
    int status;
    pid_t child = fork();

    CHECK_GE(child, 0);
    if (child == 0) {
        use();
        if (!enter_sandbox())
            _exit(REFUSED);
        trace(true);
        use();
        trace(false);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_EQ(status, 0);
}

static pthread_barrier_t barrier;

static void *stay(void *unused) {
    use();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int count, char **arguments) {
    const char *prefix = count > 1 ? arguments[1] : "sandbox";
    pthread_t thread;

    CHECK_EQ(mallctl("trace.prefix", NULL, NULL, &prefix, sizeof prefix), 0);
    run_in_sandbox();
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, stay, NULL), 0);
    pthread_barrier_wait(&barrier);
    run_in_sandbox();
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
#else
int main(void) {
    SKIP("no headers of the kernel");
}
#endif
