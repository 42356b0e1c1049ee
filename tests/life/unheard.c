// Threads of whose end the heap does not hear: by the system's call alone, or that allocate for the first time in the last round of their hooks. Their stacks,
// and thread-local memory with them, are unmapped at once, while the background thread looks at other threads' words.
// `life_unheard call|hook`.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAKERS = 3, SECONDS = 5, PAUSE_US = 100000, STACK_BYTES = 256 << 10, OBJECTS = 100 };

static bool by_call;
static pthread_key_t key;
static _Atomic bool done;

static void work(void) {
    void *objects[OBJECTS];

    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = malloc(100 + (size_t)i * 10)) != NULL);
        memset(objects[i], 1, 100);
    }
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

static void in_hook(void *round) {
    if ((long)round < PTHREAD_DESTRUCTOR_ITERATIONS)
        CHECK_EQ(pthread_setspecific(key, (void *)((long)round + 1)), 0);
    else
        work();
}

static void *end_unheard(void *unused) {
    if (by_call) {
        work();
        syscall(SYS_exit, 0);
    }
    CHECK_EQ(pthread_setspecific(key, (void *)1L), 0);
    return unused;
}

static void *make(void *unused) {
    while (!done) {
        void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_attr_t attributes;
        pthread_t thread;

        CHECK(stack != MAP_FAILED);
        CHECK_EQ(pthread_attr_init(&attributes), 0);
        CHECK_EQ(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
        CHECK_EQ(pthread_create(&thread, &attributes, end_unheard, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(munmap(stack, STACK_BYTES), 0);
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t makers[MAKERS];
    time_t end;

    by_call = count == 2 && strcmp(arguments[1], "call") == 0;
    CHECK_EQ(pthread_key_create(&key, in_hook), 0);
    for (int i = 0; i < MAKERS; i++)
        CHECK_EQ(pthread_create(&makers[i], NULL, make, NULL), 0);
    end = time(NULL) + SECONDS;
    while (time(NULL) < end)
        usleep(PAUSE_US);
    done = true;
    for (int i = 0; i < MAKERS; i++)
        CHECK_EQ(pthread_join(makers[i], NULL), 0);
    return 0;
}
