// A program with a pthread_create of its own, which allocates under a lock: the background thread is not made by it, for it may be wanted there.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { THREADS = 3, HANG_SECONDS = 300 };

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int made;

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    static create_function *real;
    void *volatile object;
    int failure;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    CHECK(real != NULL);
    CHECK_EQ(pthread_mutex_lock(&lock), 0);
    made++;
    object = malloc(4 << 20);
    memset(object, 1, 4 << 20);
    free(object); // enough for a background thread
    failure = real(thread, attributes, body, argument);
    CHECK_EQ(pthread_mutex_unlock(&lock), 0);
    return failure;
}

static void *nothing(void *unused) {
    return unused;
}

int main(void) {
    size_t there = 0, size = sizeof there;
    uint64_t epoch = 1;
    pthread_t thread;

    alarm(HANG_SECONDS);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, nothing, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    CHECK_EQ(made, THREADS);
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.background_thread.num_threads", &there, &size, NULL, 0), 0);
    CHECK_EQ(there, 1);
    return 0;
}
