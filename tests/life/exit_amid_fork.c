// exit in one thread while another is amid fork, whose handlers the C library forgets with the library that they are of: exit comes to its end all the same.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/child.h"

#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <unistd.h>

// Many arenas have many locks, so that it is the library's handlers that forks take their time for.
enum { ROUNDS = 120, ARENAS = 100, OBJECTS = 2000, HANG_SECONDS = 60 };

static void *fork_on(void *unused) {
    for (;;) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0)
            _exit(0);
        expect_child(child);
    }
    return unused;
}

static void end_amid_forks(int round) {
    static void *objects[OBJECTS];
    pthread_t forker;

    alarm(HANG_SECONDS);
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = malloc(100 + (size_t)i)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]); // exit looks through them
    CHECK_EQ(pthread_create(&forker, NULL, fork_on, NULL), 0);
    usleep((useconds_t)(2000 + round * 377 % 5000));
    exit(0);
}

int main(void) {
    for (unsigned i = 0; i < ARENAS; i++) {
        unsigned arena;
        size_t size = sizeof arena;

        CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0)
            end_amid_forks(round);
        expect_child(child);
    }
    return 0;
}
