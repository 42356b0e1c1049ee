// The process ends with the program's last thread, be that main or another, also while there is a background thread. That looks ever
// more rarely whether there is another, and is gone when exit handlers run. Threads that the C library does not know of count for it as little as they do for
// the C library: those that a program makes by the system's call, and the system for it (io_uring's).
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/family.h"

#include <alloca.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { LONG_MS = 1000, RUNS_MOST = 3, SECONDS = 100 };

static uint64_t figure(const char *name, size_t size) {
    uint64_t epoch = 1, value = 0;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

// Enough for the background thread to start.
static void leave_garbage(void) {
    for (int i = 0; i < 3; i++)
        free(memset(malloc(4 << 20), 1, 4 << 20));
}

static void wait_until_it_rests(void) {
    uint64_t before, after = figure("stats.background_thread.num_runs", sizeof after);

    malloc_trim(0);
    for (int i = 0; i < SECONDS; i++) {
        before = after;
        pause_ms(1000);
        after = figure("stats.background_thread.num_runs", sizeof after);
        if (after - before <= RUNS_MOST)
            return;
    }
    CHECK_LE(after - before, RUNS_MOST);
}

static void *work(void *ms) {
    leave_garbage();
    pause_ms((intptr_t)ms);
    if ((intptr_t)ms == LONG_MS) // main has ended
        wait_until_it_rests();
    return NULL;
}

// As it may be with a thread of the program's: a large stack, and signals that come.
static void at_exit(void) {
    pthread_attr_t attributes;
    volatile char *large;
    size_t bytes;
    sigset_t blocked;

    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &bytes);
    bytes = bytes / 2 < 512 * 1024 ? bytes / 2 : 512 * 1024;
    large = alloca(bytes);
    for (size_t i = 0; i < bytes; i += 4096)
        large[i] = 1;
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &(bool){false}, sizeof(bool)), 0); // waits for no thread that is this one
    CHECK_EQ(figure("stats.background_thread.num_threads", sizeof(size_t)), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    // glibc 2.43 blocks all in the thread that ends, if that is the last it knows of
    _exit(sigismember(&blocked, SIGTERM) && syscall(SYS_gettid) != getpid() ? 8 : 7);
}

#ifdef __GLIBC__
static int stay(void *unused) {
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return unused != NULL;
}

static void make_unknown_thread(void) {
    static char stack[16384] __attribute__((aligned(16)));
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

    CHECK(clone(stay, stack + sizeof stack, flags, NULL) > 0);
}
#endif

// The background thread rests, or does not, when the first thread ends; the last one ends long after it, or at once.
static void program(int main_waits_ms, intptr_t other_ms) {
    pthread_t thread;

    atexit(at_exit);
    leave_garbage();
    if (other_ms >= 0)
        CHECK_EQ(pthread_create(&thread, NULL, work, (void *)other_ms), 0);
    pause_ms(main_waits_ms);
#ifdef __GLIBC__
    if (getenv("UNKNOWN") != NULL)
        make_unknown_thread();
#endif
    pthread_exit(NULL);
}

// A program of its own: in a child of musl's fork the first thread keeps the C library's lock of threads when it ends.
static void ends(int main_waits_ms, intptr_t other_ms) {
    int status, tries = 20000;
    char main_waits[16], other[16];
    pid_t child;

    snprintf(main_waits, sizeof main_waits, "%d", main_waits_ms);
    snprintf(other, sizeof other, "%d", (int)other_ms);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "last_thread", main_waits, other, (char *)NULL);
        _exit(1);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (--tries == 0)
            kill(child, SIGKILL);
        pause_ms(10);
    }
    CHECK_SAY(tries > 0, "main waits %d ms, the other %d: there is still a thread", main_waits_ms, (int)other_ms);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(int count, char **arguments) {
    if (count == 3)
        program(atoi(arguments[1]), atoi(arguments[2]));
    ends(0, -1);
    ends(0, 300);
    ends(100, 0);
    ends(0, 0);
    ends(0, LONG_MS);
#ifdef __GLIBC__
    setenv("UNKNOWN", "1", 1);
    ends(0, 300);
    ends(100, 0);
#endif
    return 0;
}
