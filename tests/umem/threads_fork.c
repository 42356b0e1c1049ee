// Threads that allocate, free each other's buffers and fork, under debugging as without it.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <umem.h>

#include "../check.h"
#include "../support/child.h"

enum { THREADS = 4, ROUNDS = 3000, SLOTS = 64, FORKS = 20 };

static void *_Atomic slots[SLOTS];
static umem_cache_t *cache;
static atomic_bool stop;

static size_t size_of_slot(unsigned slot) {
    return 8 + slot * 37;
}

static void work(unsigned *seed, int rounds) {
    for (int i = 0; i < rounds; i++) {
        unsigned slot = (unsigned)rand_r(seed) % SLOTS;
        size_t size = size_of_slot(slot);
        char *fresh = umem_alloc(size, UMEM_NOFAIL), *old;
        memset(fresh, (int)slot, size);
        old = atomic_exchange(&slots[slot], fresh);
        if (old != NULL) {
            CHECK(old[0] == (char)slot && old[size - 1] == (char)slot);
            umem_free(old, size);
        }
        void *object = umem_cache_alloc(cache, UMEM_NOFAIL), *block = malloc(slot * 11);
        free(realloc(block, slot * 13 + 1));
        umem_cache_free(cache, object);
    }
}

static void *thread(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument + 1;
    while (!atomic_load(&stop)) work(&seed, 100);
    work(&seed, ROUNDS / 10);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    unsigned seed = 4711;
    cache = umem_cache_create((char *)"shared", 72, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (uintptr_t i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, thread, (void *)i), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(&seed, 200);
            exit(0);
        }
        expect_child(child);
        work(&seed, 50);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i] != NULL) umem_free(slots[i], size_of_slot(i));
    umem_cache_destroy(cache);
    return 0;
}
