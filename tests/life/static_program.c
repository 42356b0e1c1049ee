// A wholly static program (-static, no loader): threads, fork, large blocks, idleness and exit handlers on the library's archive.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/child.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>

static void *work(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    for (int i = 0; i < 20000; i++) {
        size_t size = random_below(&random, i % 100 == 0 ? 1000000 : 2000);
        void *block = malloc(size);
        pattern_fill(block, size, (uintptr_t)block);
        pattern_verify(block, size, (uintptr_t)block);
        free(block);
    }
    return NULL;
}

extern char __libc_single_threaded __attribute__((weak)); // glibc from 2.32

static size_t resident(void) {
    char text[64] = "";
    int file = open("/proc/self/statm", O_RDONLY); // without an allocation

    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && close(file) == 0);
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

// What a program leaves that only frees and is idle then goes back, where it has nothing to give up (life/background.c).
static void idle(void) {
    enum { OBJECTS = 16, BYTES = 1 << 20, NOBODY = 65534, STEP_US = 20000, MOST_US = 30000000 };
    char *objects[OBJECTS];
    size_t before;

    if (&__libc_single_threaded == NULL || getenv("VMAG_CONF") != NULL) // of another kind is the thread with front:cpu
        return;
    if (getuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0))
        return;
    before = resident();
    for (int i = 0; i < OBJECTS; i++)
        memset(objects[i] = malloc(BYTES), 1, BYTES);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    for (int us = 0; resident() > before + BYTES; us += STEP_US) {
        CHECK_LE(us, MOST_US);
        usleep(STEP_US);
    }
}

// Where it has something to give up no free asks for the thread in vain each time.
static void privileged(void) {
    enum { OBJECTS = 100, BYTES = 2 << 20, CALLS_OF_EACH = 6 };
    pid_t child = fork();
    int status, stops = 0;

    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(0);
        raise(SIGSTOP);
        for (int i = 0; i < OBJECTS; i++)
            free(memset(malloc(BYTES), 1, 1));
        _exit(0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) { // before and after each
        CHECK_EQ(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        stops++;
    }
    CHECK_EQ(status, 0);
    CHECK_LE(stops, 2 * OBJECTS * CALLS_OF_EACH);
}

static void at_exit(void) {
    free(malloc(100));
}

int main(void) {
    pthread_t threads[4];
    pid_t child = fork();

    if (child == 0) {
        idle();
        _exit(0);
    }
    expect_child(child);
    privileged();
    atexit(at_exit);
    CHECK_EQ(malloc_usable_size(malloc(1)), 8); // this library's answer; glibc's own malloc says 24
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    child = fork();
    if (child == 0) {
        alarm(300);
        work(NULL);
        _exit(0);
    }
    expect_child(child);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
