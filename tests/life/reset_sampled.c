// A child of fork resets an arena in which another thread was allocating, each object sampled, on pages that were not there yet: fork often finds that
// thread waiting for its object's page. What the other one had not finished is no misuse.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { FORKS = 60, HANG_SECONDS = 300 };

static int flags;
static _Atomic int over;

// A page run of its own, with a fence behind it; and one of those that lie side by side.
static void *allocate(void *unused) {
    while (!over) {
        void *run = mallocx(1500, flags), *small = mallocx(100, flags);

        dallocx(run, flags);
        dallocx(small, flags);
    }
    return unused;
}

int main(void) {
    ssize_t at_once = 0;
    char name[40];
    unsigned arena;
    size_t size = sizeof arena;
    pthread_t thread;

    alarm(HANG_SECONDS);
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    snprintf(name, sizeof name, "arena.%u.dirty_decay_ms", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, &at_once, sizeof at_once), 0);
    snprintf(name, sizeof name, "arena.%u.reset", arena);
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0) {
            CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
            dallocx(mallocx(1500, flags), flags);
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    over = 1;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
