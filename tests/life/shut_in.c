// A process that shuts itself in as sshd's child does before a login: any system call but those of memory, time and waiting ends it. It allocates and gives
// back as its program does elsewhere, whether it or its parent had the library's thread, or it never allocated before.
// With SHUT_IN set to letters each child is one of a process that is watched (life.shut_in.*), and ends by exit: `t` with a second thread, `b` with a black box
// VMAG_BOX.PID.box that stays, `r` with a file VMAG_REPORT in which no line tells its end.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { OBJECTS = 64, ROUNDS = 20, REFUSED = 3, WELL = 7, PAUSE_US = 20000 };

static const char *watched; // NULL: not

static bool is_watched(char how) {
    return watched != NULL && strchr(watched, how) != NULL;
}

static bool shut_in(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_getrandom), ALLOW(SYS_futex),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_close), ALLOW(SYS_getpid), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_clock_gettime), ALLOW(SYS_nanosleep),
        ALLOW(SYS_clock_nanosleep), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
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

static void *stay(void *unused) {
    use(500);
    pause();
    return unused;
}

static void become_watched(void) {
    pthread_t thread;

    if (is_watched('t') && pthread_create(&thread, NULL, stay, NULL) != 0)
        _exit(REFUSED);
}

static void look_at_rest(pid_t child, bool has_box) {
    char name[512], line[1024];
    FILE *report;
    int size;

    if (is_watched('b') && has_box) {
        size = snprintf(name, sizeof name, "%s.%d.box", getenv("VMAG_BOX"), (int)child);
        CHECK(size > 0 && (size_t)size < sizeof name);
        CHECK_SAY(unlink(name) == 0, "%s is not there", name);
    }
    if (!is_watched('r'))
        return;
    snprintf(name, sizeof name, "\"exit\",\"pid\":%d,", (int)child);
    report = fopen(getenv("VMAG_REPORT"), "r");
    while (report != NULL && fgets(line, sizeof line, report) != NULL)
        CHECK_SAY(strstr(line, name) == NULL, "%s", line);
    if (report != NULL)
        fclose(report);
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
        become_watched();
        if (!shut_in())
            _exit(REFUSED);
        for (int round = 0; round < ROUNDS; round++) {
            use(after);
            usleep(PAUSE_US);
        }
        if (watched != NULL)
            exit(WELL);
        _exit(WELL);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == WELL, "%zu, %zu, %zu bytes: status %d", parent, before, after, status);
    look_at_rest(child, before > 0);
}

int main(void) {
    watched = getenv("SHUT_IN");
    if (is_watched('r') && getenv("VMAG_REPORT") != NULL)
        unlink(getenv("VMAG_REPORT")); // of an earlier run, in which another process may have had a number of this one
    if (watched != NULL) {
        run(0, 0, 500);
        run(0, 500, 64 << 10);
        run(64 << 10, 64 << 10, 500);
        return 0;
    }
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
