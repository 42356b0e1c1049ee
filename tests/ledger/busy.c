// vmag_ledger while other threads allocate, free, start and end: it sums every time, and harms nobody.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"
#include "vmag/ledger.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, SLOTS = 3000, LEDGERS = 40, ROUNDS_A_THREAD = 60000, HELD = 8 << 20 };
static atomic_bool ended;

static size_t random_size(uint64_t *state) {
    *state = pattern_mix(*state + 1);
    return (*state >> 8) % ((*state & 63) == 0 ? 200000 : (*state & 7) == 0 ? 20000 : 700) + 1;
}

static void *churn(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed;
    static __thread void *slots[SLOTS];
    for (int i = 0; i < ROUNDS_A_THREAD && !ended; i++) {
        size_t at = pattern_mix(state) % SLOTS, size = random_size(&state);
        free(slots[at]);
        slots[at] = malloc(size);
        memset(slots[at], 1, size < 4096 ? size : 4096);
    }
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    return NULL;
}

// Threads come and go, so fronts and arenas do, too.
static void *start_and_join(void *seed) {
    for (uintptr_t i = 0; !ended; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, churn, (void *)((uintptr_t)seed + i)), 0);
        pthread_join(thread, NULL);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    if (access("/proc/self/pagemap", R_OK) != 0)
        SKIP("/proc/self/pagemap cannot be read");
    void *held = memset(malloc(HELD), 1, HELD);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, start_and_join, (void *)(i * 1000)), 0);
    for (int i = 0; i < LEDGERS; i++) {
        struct vmag_ledger ledger;
        CHECK_EQ(vmag_ledger(&ledger, sizeof ledger), 0);
        size_t sum = 0;
        for (const size_t *row = &ledger.live; row < &ledger.proportional; row++)
            sum += *row;
        CHECK_EQ(sum, ledger.resident);
        CHECK_GT(ledger.live, HELD / 2);
        free(malloc(i * 1000));
    }
    ended = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(held);
    return 0;
}
