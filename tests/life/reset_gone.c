// An arena is reset while another thread clears up after one that ended by the system's call alone, bound to that arena and with magazines: what these
// hold is home before the reset begins.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { ROUNDS = 100, OBJECTS = 2000, LARGEST = 12000, DELAYS = 50, STEPS = 20, HANG_SECONDS = 300 };

static unsigned arenas[2];
static char reset_name[2][40];
static _Atomic long turn; // odd: the other thread resets its arena, and clears up before

static size_t size_of(size_t i) { return 8 + i * 7 % LARGEST; }

static void fill(int flags) {
    static void *objects[OBJECTS];

    for (size_t i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = mallocx(size_of(i), flags)) != NULL);
        memset(objects[i], 3, size_of(i));
    }
    for (int i = 0; i < OBJECTS; i++)
        dallocx(objects[i], flags);
}

static void *end_unseen(void *number) {
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &arenas[0], sizeof arenas[0]), 0);
    fill(0);
    *(_Atomic pid_t *)number = (pid_t)syscall(SYS_gettid);
    syscall(SYS_exit, 0);
    return NULL;
}

static void wait_for(long wanted) {
    while (turn != wanted)
        sched_yield();
}

static void *clear_up(void *unused) {
    for (long round = 0; round < ROUNDS; round++) {
        wait_for(2 * round + 1);
        CHECK_EQ(mallctl(reset_name[1], NULL, NULL, NULL, 0), 0);
        turn = 2 * round + 2;
    }
    return unused;
}

int main(void) {
    size_t size = sizeof *arenas;
    pthread_attr_t detached;
    pthread_t other, ending;

    alarm(HANG_SECONDS);
    CHECK_EQ(pthread_attr_init(&detached), 0);
    CHECK_EQ(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(mallctl("arenas.create", &arenas[i], &size, NULL, 0), 0);
        snprintf(reset_name[i], sizeof reset_name[i], "arena.%u.reset", arenas[i]);
    }
    CHECK_EQ(pthread_create(&other, NULL, clear_up, NULL), 0);
    for (long round = 0; round < ROUNDS; round++) {
        _Atomic pid_t number = 0;

        CHECK_EQ(pthread_create(&ending, &detached, end_unseen, &number), 0);
        while (number == 0 || syscall(SYS_tgkill, getpid(), number, 0) == 0)
            sched_yield();
        turn = 2 * round + 1;
        for (volatile long step = 0; step < round % DELAYS * STEPS; step++)
            ;
        CHECK_EQ(mallctl(reset_name[0], NULL, NULL, NULL, 0), 0);
        wait_for(2 * round + 2);
        fill(MALLOCX_ARENA(arenas[0]) | MALLOCX_TCACHE_NONE);
    }
    CHECK_EQ(pthread_join(other, NULL), 0);
    return 0;
}
