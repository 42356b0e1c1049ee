// A storm of signals over threads that allocate: handlers that do not allocate must be harmless, system calls restarted.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { THREADS = 4, SECONDS = 4, SIGNALS = 1000 };
static _Atomic int stopping;
static _Atomic long signals_seen;

static void handler(int number) {
    (void)number;
    signals_seen++;
    errno = 4711; // a bad handler, but errno of an allocator call that succeeds is nobody's business
}

static void *churn(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    void *blocks[100] = {0};
    size_t sizes[100] = {0};
    while (!stopping) {
        size_t slot = random_below(&random, 100);
        size_t size = random_below(&random, random_below(&random, 50) == 0 ? 3000000 : 3000);
        if (blocks[slot] != NULL)
            pattern_verify(blocks[slot], sizes[slot], (uintptr_t)blocks[slot]);
        free(blocks[slot]);
        blocks[slot] = malloc(size);
        CHECK(blocks[slot] != NULL);
        sizes[slot] = size;
        pattern_fill(blocks[slot], size, (uintptr_t)blocks[slot]);
    }
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = handler}; // no SA_RESTART: system calls see EINTR
    alarm(600);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    time_t end = time(NULL) + SECONDS;
    for (long sent = 0; time(NULL) < end || signals_seen < SIGNALS; sent++) {
        pthread_kill(threads[sent % THREADS], SIGUSR1);
        struct timespec pause = {0, 20000};
        nanosleep(&pause, NULL);
    }
    stopping = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
