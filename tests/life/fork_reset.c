// A process forks while another thread resets an arena, with a cache that holds objects of it: in the child the arena is empty and can be used,
// reset and destroyed, and so it is after the next fork.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <pthread.h>
#include <sched.h>

#include "jemalloc/jemalloc.h"

enum { FORKS = 100, OBJECTS = 300, LARGEST = 60000, STEPS = 200, HANG_SECONDS = 300 };

static unsigned arena, cache;
static char reset_name[40], destroy_name[40];

// Whose turn it is: objects come into being only while nobody forks.
enum { FILLS, RESETS, STOPS };
static _Atomic int phase;

static int act(const char *name) { return mallctl(name, NULL, NULL, NULL, 0); }

static void fill(int flags) {
    for (size_t i = 0; i < OBJECTS; i++) {
        size_t size = 1 + i * 977 % LARGEST;
        void *object = mallocx(size, MALLOCX_ARENA(arena) | flags);

        CHECK(object != NULL);
        memset(object, 1, size);
        if (i % 2 == 0)
            dallocx(object, flags);
    }
}

static void *reset(void *unused) {
    for (int round = 0; phase != STOPS; round++) {
        fill(round % 2 == 0 ? MALLOCX_TCACHE_NONE : MALLOCX_TCACHE(cache));
        phase = RESETS;
        CHECK_EQ(act(reset_name), 0);
        while (phase == RESETS)
            usleep(100);
    }
    return unused;
}

// Its stack is where the other one's was.
static void *use(void *unused) {
    fill(MALLOCX_TCACHE_NONE);
    CHECK_EQ(act(reset_name), 0);
    fill(MALLOCX_TCACHE_NONE);
    return unused;
}

static void fork_once(int more) {
    pid_t child = fork();

    CHECK_GE(child, 0);
    if (child == 0) {
        pthread_t thread;

        alarm(HANG_SECONDS);
        if (more > 0)
            fork_once(more - 1);
        CHECK_EQ(pthread_create(&thread, NULL, use, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(act(destroy_name), 0);
        _exit(0);
    }
    expect_child(child);
}

int main(void) {
    size_t size = sizeof arena;
    pthread_t thread;

    alarm(HANG_SECONDS);
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("tcache.create", &cache, &size, NULL, 0), 0);
    snprintf(reset_name, sizeof reset_name, "arena.%u.reset", arena);
    snprintf(destroy_name, sizeof destroy_name, "arena.%u.destroy", arena);
    CHECK_EQ(pthread_create(&thread, NULL, reset, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        while (phase != RESETS)
            sched_yield();
        for (volatile int step = 0; step < i * STEPS; step++)
            ;
        fork_once(i % 2);
        phase = i + 1 < FORKS ? FILLS : STOPS;
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
