// A program with its own clock_gettime, getpid and syscall, which allocate and lock, as libfaketime's and uid_wrapper's do: the library calls none of
// them, in its first use, its misses, its waits for locks and what it gives back. It would be called amid its own locks.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000, HELD = 64, LARGEST = 200000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic long calls;

static int allocate_locked(void) {
    calls++;
    pthread_mutex_lock(&lock);
    free(malloc(40));
    pthread_mutex_unlock(&lock);
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){ 0, 0 };
    return allocate_locked();
}

pid_t getpid(void) {
    return allocate_locked();
}

long syscall(long number, ...) {
    (void)number;
    return allocate_locked();
}

static void *work(void *unused) {
    static void *_Atomic shared[HELD];
    unsigned random = 1;
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        size_t size = random % 16 == 0 ? random / 16 % LARGEST : random / 16 % 300;
        free(atomic_exchange(&shared[random / 65536 % HELD], malloc(size)));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(calls, 0);
    return 0;
}
