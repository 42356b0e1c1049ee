// Tests life/background.h: where no thread can be made for the moment it is tried again later, by however many threads; where none can ever be, it is not,
// and the system is asked for nothing.
// SPDX-License-Identifier: BSD-2-Clause
#include "life/background.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heap/arena.h"
#include "heap/reclaim.h"
#include "os/unseen.h"
#include "support/forbid.h"
#include "unit.h"

enum { THREADS = 4, TURNS = 20000, GARBAGE = 64 << 20, LATER_MS = 1200, HANG_SECONDS = 300 };

static _Atomic int tries, refusal;

static int refuse(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    (void)thread, (void)attributes, (void)body, (void)argument;
    tries++;
    return refusal;
}

static void *expect(void *unused) {
    for (int i = 0; i < TURNS; i++)
        reclaim_expect(arena_of(0), GARBAGE);
    return unused;
}

// How often a thread was asked for.
static int tries_of_threads(void) {
    pthread_t threads[THREADS];

    tries = 0;
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, expect, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return tries;
}

static void later(void) {
    struct timespec time = { LATER_MS / 1000, LATER_MS % 1000 * 1000000 };

    nanosleep(&time, NULL);
}

static int unseen_refusal;
static bool unseen_is_refused;

bool __real_os_unseen_start(void (*body)(void));
bool __wrap_os_unseen_start(void (*body)(void));
bool __wrap_os_unseen_start(void (*body)(void)) {
    if (!unseen_is_refused)
        return __real_os_unseen_start(body);
    tries++;
    errno = unseen_refusal;
    return false;
}

// While the process has one thread: whether one that the C library does not know of is asked for again.
static bool unseen_is_tried_again(int failure) {
    unseen_is_refused = true;
    unseen_refusal = failure;
    tries = 0;
    expect(NULL);
    CHECK_GE(tries, 1);
    later();
    tries = 0;
    expect(NULL);
    unseen_is_refused = false;
    return tries > 0;
}

static void unseen(void) {
    if (!os_process_is_single())
        return;
    CHECK(unseen_is_tried_again(ENOMEM));
    later();
    CHECK(unseen_is_tried_again(EAGAIN));
    later();
    CHECK(!unseen_is_tried_again(EINVAL));
}

static void in_child(void (*function)(void)) {
    pid_t child = fork();
    int status;

    CHECK_GE(child, 0);
    if (child == 0) {
        function();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void never_again(void) {
    refusal = EPERM;
    CHECK_EQ(tries_of_threads(), 1);
    later();
    forbid_call(SYS_getpid, SECCOMP_RET_KILL);
    tries = 0;
    expect(NULL);
    CHECK_EQ(tries, 0);
}

static void again_later(void) {
    refusal = EAGAIN;
    CHECK_GE(tries_of_threads(), 1);
    CHECK_EQ(reclaim_state, RECLAIM_NO_THREAD);
    later();
    CHECK_GE(tries_of_threads(), 1);
    later();
    background_create_by((void *)pthread_create);
    expect(NULL);
    CHECK(reclaim_state != RECLAIM_NO_THREAD);
}

int main(void) {
    alarm(HANG_SECONDS);
    free(malloc(1)); // the heap, and an arena
    background_create_by((void *)refuse);
    in_child(unseen);
    in_child(never_again);
    again_later();
    return 0;
}
