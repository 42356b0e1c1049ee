// fork in a signal handler that came amid malloc or free: it does not wait for the thread that it interrupted, nor does what follows.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { BLOCKS = 200, SIZE_MOST = 70000, FORKS = 300, HANG_SECONDS = 300, WHEN_NS = 64 * 1024, CHECKED = 64 };

static _Atomic int stopping;
static volatile sig_atomic_t forks, forked;

static void wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    CHECK_EQ(status, 0);
}

static void handler(int number) {
    int saved = errno;
    (void)number;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK_GT(child, 0);
    wait_for(child);
    forks++;
    forked = 1;
    errno = saved;
}

struct churn {
    void *blocks[BLOCKS];
    uint64_t random;
};

static void exchange_one(struct churn *churn) {
    size_t slot = random_below(&churn->random, BLOCKS), size = CHECKED + random_below(&churn->random, SIZE_MOST);
    void **block = &churn->blocks[slot];
    if (*block != NULL)
        pattern_verify_range(*block, 0, CHECKED, (uintptr_t)*block);
    free(*block);
    *block = malloc(size);
    CHECK(*block != NULL);
    pattern_fill_range(*block, 0, CHECKED, (uintptr_t)*block);
}

static void end(struct churn *churn) {
    for (int i = 0; i < BLOCKS; i++)
        free(churn->blocks[i]);
}

static void *other_thread(void *seed) {
    struct churn churn = {.random = (uintptr_t)seed};
    while (!stopping)
        exchange_one(&churn);
    end(&churn);
    return NULL;
}

static void *first_malloc(void *unused) {
    free(malloc(100));
    return unused;
}

// Outside of handlers the child may do anything, as always.
static void fork_as_always(void) {
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        struct churn churn = {.random = 1};
        pthread_t thread;
        alarm(HANG_SECONDS);
        CHECK_EQ(pthread_create(&thread, NULL, first_malloc, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        for (int i = 0; i < 1000; i++)
            exchange_one(&churn);
        end(&churn);
        _exit(0);
    }
    wait_for(child);
}

// One signal after the other, each a little while after the last one was over.
static void interrupted(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct churn churn = {.random = 42};
    uint64_t random = 4711;
    timer_t timer;
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    for (forks = 0, forked = 1; forks < FORKS; exchange_one(&churn)) {
        struct itimerspec soon = {{0, 0}, {0, 1 + (long)random_below(&random, WHEN_NS)}};
        if (!forked)
            continue;
        forked = 0;
        CHECK_EQ(timer_settime(timer, 0, &soon, NULL), 0);
    }
    CHECK_EQ(timer_delete(timer), 0);
    end(&churn);
    fork_as_always();
}

// Alone but for the library's own thread; then beside threads that allocate, too.
int main(void) {
    struct sigaction action = {.sa_handler = handler};
    pthread_t threads[2];
    sigset_t set;
    alarm(HANG_SECONDS);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    interrupted();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, other_thread, (void *)(i + 7)), 0);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    interrupted();
    stopping = 1;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    return 0;
}
