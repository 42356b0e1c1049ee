// vfork and posix_spawn from threads that allocate: the parent's heap is whole afterwards.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"
#include "../support/pattern.h"

#include <pthread.h>
#include <spawn.h>

extern char **environ;
enum { THREADS = 4, ROUNDS = 60 };

static void *spawn_some(void *unused) {
    char *arguments[] = {(char *)"true", NULL};
    for (int round = 0; round < ROUNDS; round++) {
        void *block = malloc(20000);
        pattern_fill(block, 20000, (uintptr_t)block);
        pid_t child;
        CHECK_EQ(posix_spawnp(&child, "true", NULL, NULL, arguments, environ), 0);
        expect_child(child);
        child = vfork();
        if (child == 0) {
            execvp("true", arguments);
            _exit(9);
        }
        expect_child(child);
        pattern_verify(block, 20000, (uintptr_t)block);
        free(block);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, spawn_some, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    return 0;
}
