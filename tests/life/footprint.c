// Small processes stay small: what a fresh process and 500 idle threads hold more than with the C library's malloc.
// Prints two numbers, resident KiB when fresh and bytes a thread; `footprint bare`: its threads do not allocate.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"

#include <pthread.h>

enum { THREADS = 500, STACK = 64 * 1024 };
static pthread_barrier_t allocated, ends;

static void allocate_once(void) {
    void *block = malloc(100);
    CHECK(block != NULL);
    memset(block, 1, 100);
}

static void *idle(void *bare) {
    if (bare == NULL)
        allocate_once();
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&ends);
    return NULL;
}

int main(int count, char **arguments) {
    void *bare = count > 1 ? arguments[1] : NULL;
    for (int i = 0; i < 40; i++)
        allocate_once();
    long fresh = anonymous_bytes();
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&allocated, NULL, THREADS + 1);
    pthread_barrier_init(&ends, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], &attributes, idle, bare), 0);
    pthread_barrier_wait(&allocated);
    long with_threads = anonymous_bytes();
    printf("%ld %ld\n", fresh / 1024, (with_threads - fresh) / THREADS);
    fflush(stdout);
    pthread_barrier_wait(&ends);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
