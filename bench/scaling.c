// Two times of this machine that the model of scaling needs (scaling.py): how long a cache line takes from one processor to
// another, and how long an uncontended lock takes to be taken and released. Least of many rounds, one line of JSON.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 300, PASSES = 2000 };

static struct {
    _Atomic uint32_t turn __attribute__((aligned(128)));
    _Atomic uint32_t lock __attribute__((aligned(128)));
} shared;

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// Keeps the thread on the index-th processor that the process may use; false: there are not as many.
static int stay_on(int index) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || index-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
    }
    return 0;
}

static void pass(uint32_t mine) {
    for (int i = 0; i < PASSES; i++) {
        while (atomic_load_explicit(&shared.turn, memory_order_acquire) != mine) {
        }
        atomic_store_explicit(&shared.turn, !mine, memory_order_release);
    }
}

static void *other_side(void *unused) {
    (void)unused;
    stay_on(1);
    for (int round = 0; round < ROUNDS; round++) pass(1);
    return NULL;
}

// 0: there is one processor only. The second thread may use all of the process: it is not yet bound to the first's.
static double line_ns(void) {
    pthread_t other;
    double least = 1e9;
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    if (CPU_COUNT(&all) < 2 || pthread_create(&other, NULL, other_side, NULL) != 0) return 0;
    stay_on(0);
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now_ns();
        pass(0);
        const double each = (now_ns() - begin) / (2.0 * PASSES);
        if (each < least) least = each;
    }
    pthread_join(other, NULL);
    return least;
}

static double lock_ns(void) {
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now_ns();
        for (int i = 0; i < PASSES; i++) {
            uint32_t free = 0, held = 1;
            atomic_compare_exchange_strong_explicit(&shared.lock, &free, 1, memory_order_acquire, memory_order_relaxed);
            atomic_compare_exchange_strong_explicit(&shared.lock, &held, 0, memory_order_release, memory_order_relaxed);
        }
        const double each = (now_ns() - begin) / PASSES;
        if (each < least) least = each;
    }
    return least;
}

int main(void) {
    const double line = line_ns();
    printf("{\"line_ns\":%.2f,\"lock_ns\":%.2f}\n", line, lock_ns());
    return 0;
}
