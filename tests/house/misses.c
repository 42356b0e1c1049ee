// Misses, for who counts their instructions: `misses aligned|foreign SIZE COUNT`: objects at multiples of 16 that are allocated and freed by turns, or
// objects that another thread allocated, in batches, and this one frees.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "../check.h"

enum { BATCH = 1000 };

static size_t size;
static void *batch[BATCH];
static pthread_barrier_t barrier;

static void *allocate(void *batches) {
    for (long i = 0; i < (long)batches; i++) {
        for (int j = 0; j < BATCH; j++) batch[j] = malloc(size);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void foreign(long batches) {
    pthread_t thread;

    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, allocate, (void *)batches), 0);
    for (long i = 0; i < batches; i++) {
        pthread_barrier_wait(&barrier);
        for (int j = 0; j < BATCH; j++) free(batch[j]);
        pthread_barrier_wait(&barrier);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void aligned(long pairs) {
    for (long i = 0; i < pairs; i++) {
        void *volatile object = memalign(16, size);

        free(object);
    }
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    free(malloc(1)); // so that this thread has an arena before the other one has
    size = (size_t)atol(arguments[2]);
    if (arguments[1][0] == 'a')
        aligned(atol(arguments[3]));
    else
        foreign(atol(arguments[3]) / BATCH);
    return 0;
}
