// exit in one thread while another is amid fork, whose handlers the C library forgets with the library that they are of: exit comes to its end all the same, and
// so does the child.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/child.h"

#include <jemalloc/jemalloc.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

// Many arenas have many locks, so that it is the library's handlers that forks take their time for.
enum { ROUNDS = 120, ARENAS = 100, OBJECTS = 2000, HANG_SECONDS = 300 };

static void *fork_on(void *unused) {
    for (;;) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0) {
            alarm(HANG_SECONDS); // nobody waits for the last one
            free(malloc(100));
            _exit(0);
        }
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

// The other end of the pipe is open in all of them, until they end.
static void expect_end_of_all(int end) {
    struct pollfd all = {.fd = end, .events = POLLIN};

    CHECK_EQ(poll(&all, 1, HANG_SECONDS / 2 * 1000), 1);
    CHECK((all.revents & POLLHUP) != 0);
    close(end);
}

int main(void) {
    int ends[2];

    for (unsigned i = 0; i < ARENAS; i++) {
        unsigned arena;
        size_t size = sizeof arena;

        CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    }
    CHECK_EQ(pipe(ends), 0);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0)
            end_amid_forks(round);
        expect_child(child);
    }
    close(ends[1]);
    expect_end_of_all(ends[0]);
    return 0;
}
