// A sandbox that ends who asks for a thread by number, as that of sshd does: a process of one thread asks for none, whether it has closed its doors
// (as the event trace does) alone all its life, or is the child of one that had threads.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/forbid.h"
#include "jemalloc/jemalloc.h"

enum { REFUSED = 3 };

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
        if (!forbid_call(SYS_tgkill, SECCOMP_RET_KILL))
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
