// What interrupts sequences: a storm of signals, and threads that hop between processors.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_RSEQ_INTERRUPTIONS_H
#define VMAG_TESTS_RSEQ_INTERRUPTIONS_H

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

#ifndef sigev_notify_thread_id // glibc has the field, not the name
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { NANOSECONDS_A_SIGNAL = 20000 };

// SIGUSR1 for this thread, over and over, until the timer is deleted.
static inline timer_t storm_begin(void) {
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
    struct itimerspec period = { { 0, NANOSECONDS_A_SIGNAL }, { 0, NANOSECONDS_A_SIGNAL } };
    timer_t timer;

    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQ(timer_settime(timer, 0, &period, NULL), 0);
    return timer;
}

// Refused where the processor is not ours.
static inline void hop(unsigned to) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(to, &set);
    sched_setaffinity(0, sizeof set, &set);
}

#endif
