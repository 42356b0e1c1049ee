// Copies of the process by the system's call, clone(2) and syscall(2), of which the C library tells nobody: the child has a whole heap, whatever the background
// thread was at. And both functions do as the C library's.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 12000, COPIES = 400, HANG_SECONDS = 300, STACK = 256 * 1024, MIB = 1 << 20, ANSWER = 7 };

static void *objects[OBJECTS];
static char *stack;
static volatile int shared;

static void fill(size_t count) {
    static unsigned seed;

    for (size_t i = 0; i < count; i++) {
        size_t size = 16 + (seed = seed * 1103515245 + 12345) % 3000;

        CHECK((objects[i] = memset(malloc(size), 1, size)) != NULL);
    }
    for (size_t i = 0; i < count; i++)
        free(objects[i]);
}

static int use_heap(void *answer) {
    alarm(HANG_SECONDS);
    fill(3000);
    free(memset(malloc(3 * MIB), 1, 3 * MIB));
    return *(int *)answer;
}

static void expect(long child, int answer) {
    int status;

    CHECK_GT(child, 0);
    CHECK_EQ(waitpid((pid_t)child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), answer);
}

static int answer = ANSWER;

enum { EXIT_SIGNAL = 4, FIELDS = 8 };

// As fork does it, by a call whose arguments are not looked at. -1: the system has none.
static long copy_anew(void) {
    uint64_t arguments[FIELDS] = {[EXIT_SIGNAL] = SIGCHLD};

    return syscall(SYS_clone3, arguments, sizeof arguments);
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

// The other thread goes first, and comes back when it is wanted again.
static void copies_alone(void) {
    for (int i = 0; i < 10; i++) {
        long child;

        for (int ms = 0; ms < 5000 && threads() == 1; ms += 20) {
            fill(OBJECTS);
            nanosleep(&(struct timespec){0, 20000000}, NULL);
        }
        child = copy_anew();
        if (child == 0)
            _exit(use_heap(&answer));
        if (child == -1 && (errno == ENOSYS || errno == EPERM)) // not here, or not in this container
            return;
        CHECK_EQ(threads(), 1);
        expect(child, ANSWER);
    }
}

// While what was freed is given back by the other thread.
static void copy_often(void) {
    for (int i = 0; i < COPIES; i++) {
        long child;

        if (i % 10 == 0)
            fill(OBJECTS);
        child = i % 3 == 0 ? copy_anew() : -1;
        if (child == -1)
            child = i % 2 == 0 ? clone(use_heap, stack + STACK, SIGCHLD, &answer) : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(use_heap(&answer));
        expect(child, ANSWER);
        nanosleep(&(struct timespec){0, i % 5 * 1000000}, NULL);
    }
}

static int on_stack(void *argument) {
    char here;

    CHECK(&here > stack && &here < stack + STACK);
    CHECK(((uintptr_t)__builtin_frame_address(0) & 15) == 0);
    shared++;
    return *(int *)argument;
}

static void clone_as_before(void) {
    pid_t parents = 0;

    errno = 0;
    CHECK(clone(NULL, stack + STACK, SIGCHLD, NULL) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(clone(on_stack, NULL, SIGCHLD, NULL) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(clone(NULL, stack + STACK, SIGCHLD | CLONE_VM, NULL) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(clone(on_stack, stack + STACK, SIGCHLD | CLONE_VM | CLONE_FS | CLONE_NEWNS, &answer) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(clone(on_stack, stack + STACK, SIGCHLD | CLONE_FS | CLONE_NEWNS, &answer) == -1 && errno == EINVAL);
    expect(clone(on_stack, stack + STACK, SIGCHLD | CLONE_PARENT_SETTID, &answer, &parents, NULL, NULL), ANSWER);
    CHECK(shared == 0 && parents > 0);
    parents = 0;
    expect(clone(on_stack, stack + STACK - 3, SIGCHLD | CLONE_VM | CLONE_PARENT_SETTID, &answer, &parents, NULL, NULL), ANSWER);
    CHECK(shared == 1 && parents > 0);
    expect(clone(on_stack, stack + STACK, SIGCHLD | CLONE_VM | CLONE_VFORK, &answer), ANSWER);
    CHECK_EQ(shared, 2);
}

static int fills_its_stack(void *argument) {
    volatile char here[2000];

    memset((void *)here, 1, sizeof here);
    return argument == &answer ? ANSWER : 1;
}

// Of a copy the stack may be what its parent uses itself.
static void clone_on_own_stack(void) {
    char *here = __builtin_frame_address(0);

    for (ptrdiff_t below = -64; below < 1024; below += 16)
        expect(clone(fills_its_stack, here - below, SIGCHLD, &answer), ANSWER);
}

static void calls_as_before(void) {
    char *pages = (char *)syscall(SYS_mmap, NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0l), byte = 5;
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
    char *second = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0l);

    CHECK(pages != MAP_FAILED && pages[(1 << 16) - 1] == 0 && second != MAP_FAILED && memcmp(second, "\177ELF", 4) == 0);
    CHECK_EQ(syscall(SYS_pread64, file, &byte, 1, 1l), 1);
    CHECK_EQ(byte, 'E');
    CHECK(syscall(SYS_getpid) == getpid() && syscall(SYS_gettid) == gettid());
    errno = 0;
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    errno = 0;
    CHECK(syscall(100000l) == -1 && errno == ENOSYS);
    errno = 0;
    CHECK(syscall(-1l) == -1 && errno == ENOSYS);
    errno = 0;
    CHECK(syscall(SYS_clone3, NULL, 0l) == -1 && (errno == EINVAL || errno == ENOSYS));
    errno = 0;
    CHECK(syscall(SYS_clone3, (void *)8, 88l) == -1 && (errno == EFAULT || errno == ENOSYS));
    errno = 0;
    CHECK(syscall(SYS_clone, CLONE_FS | CLONE_NEWNS, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK_EQ(syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0), prctl(PR_GET_DUMPABLE));
    CHECK_EQ(syscall(SYS_prctl, PR_SET_TIMERSLACK, 0x123456789l, 0, 0, 0), 0);
    CHECK_EQ(syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0), 0x123456789l);
    CHECK_EQ(syscall(SYS_prctl, PR_SET_TIMERSLACK, 0, 0, 0, 0), 0);
    CHECK_EQ(syscall(SYS_setresuid, -1, -1, -1), 0);
    errno = 0;
    CHECK(syscall(SYS_unshare, -1l) == -1 && errno == EINVAL);
}

static void leave_garbage(void) {
    for (int ms = 0; ms < 500; ms += 20) {
        fill(OBJECTS);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
}

static int has_user_namespace(void *with_garbage) {
    if (with_garbage != NULL)
        leave_garbage();
    return syscall(SYS_unshare, CLONE_NEWUSER) == 0 ? 0 : 1;
}

// May not be had by a process with a second thread.
static void user_namespace(void) {
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(has_user_namespace(NULL));
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == 0)
        expect(clone(has_user_namespace, stack + STACK, SIGCHLD, &answer), 0);
}

// The other thread does not keep the process.
static void end_first_thread(void) {
    pid_t child = fork();

    if (child == 0) {
        leave_garbage();
        syscall(SYS_exit, ANSWER);
    }
    expect(child, ANSWER);
}

int main(void) {
    alarm(4 * HANG_SECONDS);
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    calls_as_before();
    clone_as_before();
    clone_on_own_stack();
    copies_alone();
    copy_often();
    user_namespace();
    end_first_thread();
    return 0;
}
