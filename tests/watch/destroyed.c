// Caches that come and go in several threads while all their objects are sampled: what ends with one cache is not another's, which
// may have its number and its addresses by then. Run with prof:true.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <time.h>

#include "../check.h"
#include "vmag/cache.h"

enum { THREADS = 4, OBJECTS = 64, SECONDS = 3 };

static double now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *come_and_go(void *unused) {
    void *objects[OBJECTS];

    for (double end = now() + SECONDS; now() < end;) {
        vmag_cache_t *cache = vmag_cache_create("comes and goes", 4096, 0, NULL, NULL, NULL, NULL, NULL, 0);

        for (int i = 0; i < OBJECTS; i++) CHECK((objects[i] = vmag_cache_alloc(cache, 0)) != NULL);
        for (int i = 0; i < OBJECTS; i++) vmag_cache_free(cache, objects[i]);
        vmag_cache_destroy(cache);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
