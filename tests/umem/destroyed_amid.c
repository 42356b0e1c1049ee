// A cache whose objects were all freed is destroyed while another thread, which frees something else, gives back what was held back of it.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <umem.h>

#include "../check.h"

enum { ROUNDS = 5000, SIZE = 100000 };

static atomic_bool stop;

static void *free_others(void *unused) {
    while (!stop)
        umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
    return unused;
}

int main(void) {
    pthread_t other;

    CHECK_EQ(pthread_create(&other, NULL, free_others, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        umem_cache_t *cache = umem_cache_create((char *)"amid", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);

        umem_cache_free(cache, umem_cache_alloc(cache, UMEM_NOFAIL));
        umem_cache_destroy(cache);
    }
    stop = true;
    pthread_join(other, NULL);
    return 0;
}
