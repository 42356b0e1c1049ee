// A program with a megabyte of thread-local memory: the library's words lie that far from the thread pointer.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, OBJECTS = 2000, ROUNDS = 20, THREADS = 4 };

static _Thread_local char memory[BYTES];

static void use(void) {
    void *objects[OBJECTS];

    for (int round = 0; round < ROUNDS; round++) {
        memset(memory, round, BYTES);
        for (size_t i = 0; i < OBJECTS; i++) {
            objects[i] = malloc(i);
            CHECK(objects[i] != NULL);
            pattern_fill(objects[i], i, (uintptr_t)objects[i]);
        }
        for (size_t i = 0; i < BYTES; i++)
            CHECK(memory[i] == (char)round);
        for (size_t i = 0; i < OBJECTS; i++) {
            pattern_verify(objects[i], i, (uintptr_t)objects[i]);
            free(objects[i]);
        }
    }
}

static void *thread_main(void *unused) {
    use();
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, NULL) == 0);
    use();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
